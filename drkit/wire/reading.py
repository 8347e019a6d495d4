"""The records of a fetch answer that a consumer sees, for code that reads and copies nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from drkit.wire.chunk import Chunk, Transformed
from drkit.wire.header import read_header, split
from drkit.wire.records import Piece, Record, decode, pieces
from drkit.wire.transform import transform

_APART: Final = 0
_ANY_SIZE: Final = 1 << 30


def visible(
    buffer: bytes | bytearray | memoryview,
    position: int,
    end: int | None = None,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    without: frozenset[int] = frozenset(),
) -> Transformed:
    """The contents of the record batches of one partition from a position on.

    The result is never written, so no batch is joined with another one or cut because of its size.

    :param buffer: the record batches as fetched; the last may be cut off
    :param end: first offset not wanted, None without a limit; a batch that begins after it shows that the
        range ends in a gap
    :param aborted: the answer's aborted transactions: producer id, first offset
    :param without: producers whose records are left out
    :raises CorruptBatch: a batch cannot be read
    """
    (result,) = transform(
        buffer, position=position, end=end, aborted=aborted, skip_producer_ids=without,
        merge_below=_APART, merge_up_to=_APART, max_batch_bytes=_ANY_SIZE,
    )  # fmt: skip
    if end is not None and result.next_source < end and any(h.base_offset >= end for h, _ in split(buffer)):
        result.next_source = end  # compaction has removed what was between the last batch and this one
    return result


def is_whole(buffer: bytes | bytearray | memoryview, position: int) -> bool:
    """Whether fetched batches have every offset from a position on: compaction has removed none of them.

    :raises CorruptBatch: a batch cannot be read
    """
    for header, _ in split(buffer):
        if header.next_offset <= position:
            continue
        if header.base_offset > position or header.count != header.last_offset_delta + 1:
            return False
        position = header.next_offset
    return True


def records_in(chunk: Chunk) -> Iterator[Record]:
    """The records of a chunk, with the offsets at which they were fetched."""
    offsets = chain.from_iterable(range(run.source, run.source + run.count) for run in chunk.runs)
    for offset, record in zip(offsets, decode(read_header(chunk.data), chunk.data), strict=True):
        yield record._replace(offset=offset)


def pieces_in(chunk: Chunk) -> Iterator[Piece]:
    """The records of a chunk, not taken apart, with the offsets at which they were fetched."""
    offsets = chain.from_iterable(range(run.source, run.source + run.count) for run in chunk.runs)
    found = pieces(read_header(chunk.data), chunk.data)
    return ((offset, time, body) for offset, (_, time, body) in zip(offsets, found, strict=True))
