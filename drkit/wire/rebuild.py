"""New batches out of records that cannot travel in the batch they came in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drkit.wire.chunk import Chunk, How, runs_of
from drkit.wire.records import Piece, build


class Recipe(NamedTuple):
    """How to build: the source's codec and leader epoch, the largest batch the target takes, and why."""

    codec: int
    leader_epoch: int
    max_batch_bytes: int
    how: How


def rebuild(records: Sequence[Piece], recipe: Recipe) -> Iterator[Chunk]:
    """Chunks with all of ``records`` (at least one), halved until each fits ``max_batch_bytes``.

    A chunk that is still larger holds a single record: only the caller can know what to do about it.
    """
    data = build(records, recipe.codec)
    if len(data) > recipe.max_batch_bytes and len(records) > 1:
        middle = len(records) // 2
        yield from rebuild(records[:middle], recipe)
        yield from rebuild(records[middle:], recipe)
        return
    yield Chunk(
        data,
        runs_of(record.offset for record in records),
        len(records),
        max(record.timestamp for record in records),
        records[-1].offset + 1,
        recipe.leader_epoch,
        recipe.how,
    )
