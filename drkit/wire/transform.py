"""The heart of the data plane: a fetch answer of the source becomes batches for the target.

A batch that can travel as it is costs a copy and a checksum, nothing per record. What cannot (holes,
LogAppendTime, a cut) is taken apart and rebuilt, and small batches are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from drkit.wire.aborted import AbortedTransactions
from drkit.wire.chunk import Chunk, DropReason, How, Run, Transformed
from drkit.wire.codecs import crc32c
from drkit.wire.header import CODEC_BITS, CRC_START, LOG_APPEND_TIME_BIT, BatchHeader, CorruptBatch, split
from drkit.wire.rebuild import Recipe, rebuild
from drkit.wire.records import Piece, pieces

_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")


class _Waiting(NamedTuple):
    """A small batch that may be joined with the next ones; ``records`` when it had to be taken apart."""

    header: BatchHeader
    batch: memoryview
    records: list[Piece] | None
    how: How


class _Pass:
    """One call of :func:`transform`."""

    def __init__(  # noqa: PLR0913 - the knobs of transform, passed on once
        self,
        position: int,
        end: int | None,
        aborted: Sequence[tuple[int, int]],
        skip_producer_ids: frozenset[int],
        merge_below: int,
        merge_up_to: int,
        max_batch_bytes: int,
    ) -> None:
        self._position = position
        self._end = end
        self._aborted = AbortedTransactions(aborted)
        self._skip = skip_producer_ids
        self._merge_below = merge_below
        self._merge_up_to = min(merge_up_to, max_batch_bytes)
        self._max_batch_bytes = max_batch_bytes
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self.done = Transformed(next_source=position)

    def take(self, header: BatchHeader, batch: memoryview) -> bool:
        """Handle the next batch; False when it lies at or behind the end."""
        self._check(header, batch)
        if self._end is not None and header.base_offset >= self._end:
            return False
        self.done.leader_epoch = header.leader_epoch
        reason = self._reason_to_drop(header, batch)
        if reason is None:
            self._copy(header, batch)
        else:
            start = header.base_offset
            if reason is not DropReason.BEFORE_POSITION:
                start = max(start, self._position)
            self.done.drop(start, self._cut(header.next_offset), reason)
        self.done.next_source = max(self.done.next_source, self._cut(header.next_offset))
        return True

    def _cut(self, offset: int) -> int:
        return offset if self._end is None else min(offset, self._end)

    def _check(self, header: BatchHeader, batch: memoryview) -> None:
        if crc32c(bytes(batch[CRC_START:])) != header.crc:
            raise CorruptBatch(header.base_offset, "CRC-32C does not match")
        if header.count < 0 or header.last_offset_delta < 0 or header.count > header.last_offset_delta + 1:
            reason = f"{header.count} records in {header.last_offset_delta + 1} offsets"
            raise CorruptBatch(header.base_offset, reason)

    def _reason_to_drop(self, header: BatchHeader, batch: memoryview) -> DropReason | None:
        self._aborted.advance(header.last_offset)
        if header.is_control:
            self._aborted.end(header, batch)
        if header.last_offset < self._position:
            return DropReason.BEFORE_POSITION
        if header.is_control:
            return DropReason.CONTROL
        if self._aborted.hides(header):
            return DropReason.ABORTED
        if header.producer_id in self._skip:
            return DropReason.LOOP
        return DropReason.EMPTY if header.count == 0 else None

    def _copy(self, header: BatchHeader, batch: memoryview) -> None:
        how = self._how(header)
        records: list[Piece] | None = None
        if how is not How.FORWARDED:
            start, end = self._position, self._cut(header.next_offset)
            records = [record for record in pieces(header, batch) if start <= record.offset < end]
            if not records:
                self.done.drop(max(start, header.base_offset), end, DropReason.EMPTY)
                return
        if header.size >= self._merge_below:
            self.flush()
            self._emit(_Waiting(header, batch, records, how))
            return
        if self._waiting and (
            self._waiting[0].header.codec != header.codec
            or self._waiting_bytes + header.size > self._merge_up_to
        ):
            self.flush()
        self._waiting.append(_Waiting(header, batch, records, how))
        self._waiting_bytes += header.size

    def _how(self, header: BatchHeader) -> How:
        if header.base_offset < self._position or (self._end is not None and header.last_offset >= self._end):
            return How.SLICED
        if header.count != header.last_offset_delta + 1:
            return How.RENUMBERED
        if header.attributes & LOG_APPEND_TIME_BIT:
            return How.REBUILT
        if header.size > self._max_batch_bytes and header.count > 1:
            return How.REBUILT
        return How.FORWARDED

    def flush(self) -> None:
        """Finish the group of small batches."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        if len(waiting) == 1:
            self._emit(waiting[0])
            return
        records: list[Piece] = []
        for item in waiting:
            records += pieces(item.header, item.batch) if item.records is None else item.records
        last = waiting[-1].header
        self.done.chunks += rebuild(
            records, Recipe(last.codec, last.leader_epoch, self._max_batch_bytes, How.MERGED)
        )

    def _emit(self, item: _Waiting) -> None:
        header = item.header
        if item.records is None:
            self.done.chunks.append(forward(header, item.batch))
        else:
            recipe = Recipe(header.codec, header.leader_epoch, self._max_batch_bytes, item.how)
            self.done.chunks += rebuild(item.records, recipe)


def forward(header: BatchHeader, batch: memoryview) -> Chunk:
    """The batch with the fields of its old place cleared: base offset, leader epoch, attributes.

    A delete horizon needs no more than its bit cleared: the base timestamp is then the horizon and the
    records' deltas are relative to it, so the sum remains each record's own time.
    """
    data = bytearray(batch)
    _OFFSET.pack_into(data, 0, 0)
    _LEADER_EPOCH.pack_into(data, 12, -1)
    _ATTRIBUTES.pack_into(data, CRC_START, header.attributes & CODEC_BITS)
    count = header.count
    return Chunk(
        data,
        (Run(header.base_offset, count),),
        count,
        header.max_timestamp,
        header.base_offset + count,
        header.leader_epoch,
        How.FORWARDED,
    )


def transform(  # noqa: PLR0913 - one pure function with everything it depends on
    buffer: bytes | bytearray | memoryview,
    *,
    position: int,
    end: int | None,
    aborted: Sequence[tuple[int, int]],
    skip_producer_ids: frozenset[int],
    merge_below: int,
    merge_up_to: int,
    max_batch_bytes: int,
) -> Transformed:
    """Turn the records of one partition in a Fetch answer into batches for the target.

    :param buffer: the record batches as fetched; the last may be cut off
    :param position: first wanted source offset; a fetch inside a batch returns all of it
    :param end: first source offset not wanted, None without a limit
    :param aborted: the answer's aborted transactions: producer id, first offset
    :param skip_producer_ids: producers of the opposite flow, whose records would go round in circles
    :param merge_below: batches of fewer bytes are joined with their neighbours; 0 never joins
    :param merge_up_to: bytes of source batches to join at most
    :param max_batch_bytes: largest batch the target takes

    Raises CorruptBatch, before anything of this answer is used: a checksum that does not match, a header
    that contradicts its records, a message format before 2.
    """
    work = _Pass(position, end, aborted, skip_producer_ids, merge_below, merge_up_to, max_batch_bytes)
    for header, batch in split(buffer):
        if not work.take(header, batch):
            break
    work.flush()
    return work.done
