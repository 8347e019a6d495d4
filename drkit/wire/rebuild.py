"""New batches out of records that cannot travel in the batch they came in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drkit.wire.building import TimesApartError, build
from drkit.wire.chunk import Chunk, How, OffsetRun
from drkit.wire.records import Piece


class Recipe(NamedTuple):
    """How to build: the source's codec and leader epoch, the largest batch the target takes, and why."""

    codec: int
    leader_epoch: int
    max_batch_bytes: int
    how: How


def rebuild(records: Sequence[Piece], recipe: Recipe) -> Iterator[Chunk]:
    """Chunks with all of ``records`` (at least one), halved until each fits ``max_batch_bytes``.

    A chunk that is still larger holds a single record: the caller decides what to do with it.
    """
    data = _together(records, recipe.codec)
    if data is None or (len(data) > recipe.max_batch_bytes and len(records) > 1):
        middle = len(records) // 2
        yield from rebuild(records[:middle], recipe)
        yield from rebuild(records[middle:], recipe)
        return
    yield Chunk(
        data=data,
        runs=runs_of(records),
        count=len(records),
        max_timestamp=max(time for _, time, _ in records),
        next_source=records[-1][0] + 1,
        leader_epoch=recipe.leader_epoch,
        how=recipe.how,
    )


def _together(records: Sequence[Piece], codec: int) -> bytearray | None:
    """One batch of the records; None when their times do not fit into one. A single record always fits."""
    try:
        return build(records, codec)
    except TimesApartError:
        return None


def runs_of(records: Sequence[Piece]) -> tuple[OffsetRun, ...]:
    """The source offsets of records, which rise, as runs without gaps."""
    first, last = records[0][0], records[-1][0]
    if last - first == len(records) - 1:
        return (OffsetRun(first, len(records)),)
    runs: list[OffsetRun] = []
    start = following = first
    for offset, _, _ in records:
        if offset != following:
            runs.append(OffsetRun(start, following - start))
            start = offset
        following = offset + 1
    runs.append(OffsetRun(start, following - start))
    return tuple(runs)
