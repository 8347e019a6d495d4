"""What a fetch answer holds: records and holes, in the order of their offsets. Pure.

Which records count, and which offsets are left out for which reason, is decided by the code of the copy
(:func:`drkit.wire.visible`); only the time's type and the producer come from the headers of the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from drkit.export.hole import Hole, HoleKind
from drkit.export.record import ExportedRecord, TimestampType
from drkit.wire import records_in, split, visible
from drkit.wire.chunk import Drop, DropReason, Transformed
from drkit.wire.header import BatchHeader

Item = ExportedRecord | Hole
_KINDS: Final = {
    DropReason.CONTROL: HoleKind.MARKER,
    DropReason.ABORTED: HoleKind.ABORTED,
    DropReason.LOOP: HoleKind.COPIED_BACK,
    DropReason.EMPTY: HoleKind.COMPACTED,
}


class Contents(NamedTuple):
    """The contents of an answer; the batches are unpacked one after another, as the items are taken."""

    items: Iterator[Item]
    next_offset: int
    """Where to fetch next; the position asked for when the answer holds no whole batch."""


def contents(
    buffer: bytes,
    position: int,
    end: int,
    *,
    aborted: Sequence[tuple[int, int]],
    skip: frozenset[int],
) -> Contents:
    """Every offset from a position up to the end of the answer, or up to `end`, as a record or in a hole.

    :param buffer: the record batches as fetched; the last may be cut off
    :param end: first offset not wanted
    :param aborted: the answer's aborted transactions: producer id, first offset
    :param skip: producers whose records drkit itself had copied there
    :raises CorruptBatch: a batch cannot be read
    """
    out = visible(buffer, position, end, aborted=aborted, without=skip)
    stop = out.next_source
    return Contents(_without_gaps(_in_order(out, buffer), position, stop), stop)


def _in_order(out: Transformed, buffer: bytes) -> Iterator[Item]:
    drops = iter([drop for drop in out.drops if drop.reason is not DropReason.BEFORE_POSITION])
    drop = next(drops, None)
    for record in _records(out, buffer):
        while drop is not None and drop.start < record.offset:
            yield _hole(drop)
            drop = next(drops, None)
        yield record
    yield from (_hole(each) for each in chain([drop] if drop is not None else [], drops))


def _hole(drop: Drop) -> Hole:
    return Hole(drop.start, drop.end, _KINDS[drop.reason])


def _records(out: Transformed, buffer: bytes) -> Iterator[ExportedRecord]:
    headers = _data(header for header, _ in split(buffer))
    header = next(headers, None)
    for found in out.chunks:
        for record in records_in(found):
            while header is not None and header.last_offset < record.offset:
                header = next(headers, None)
            assert header is not None, "a record outside of every batch"  # noqa: S101  a programming error
            yield ExportedRecord(
                offset=record.offset,
                timestamp=record.timestamp,
                timestamp_type=TimestampType(header.is_log_append_time),
                key=record.key,
                value=record.value,
                headers=record.headers,
                producer_id=header.producer_id,
            )


def _data(headers: Iterable[BatchHeader]) -> Iterator[BatchHeader]:
    return (header for header in headers if not header.is_control)


def _without_gaps(items: Iterable[Item], position: int, stop: int) -> Iterator[Item]:
    """The items, with what is between them as compacted: a log has no other gaps after its start."""
    for item in items:
        first = item.first if isinstance(item, Hole) else item.offset
        if first > position:
            yield Hole(position, first, HoleKind.COMPACTED)
        yield item
        position = item.end if isinstance(item, Hole) else item.offset + 1
    if stop > position:
        yield Hole(position, stop, HoleKind.COMPACTED)
