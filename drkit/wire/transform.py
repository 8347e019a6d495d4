"""Converts a fetch response of the source to batches for the target.

Forwarding a batch unchanged costs a copy and a checksum, nothing per record. Other batches (holes,
LogAppendTime, a cut) are decoded and rebuilt, and small batches are joined.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from drkit.wire.aborted import AbortedTransactions
from drkit.wire.chunk import DropReason, How, Returned, Transformed, check_sound
from drkit.wire.codecs import CODEC_NAMES, crc32c
from drkit.wire.forward import forward
from drkit.wire.header import (
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    check_start,
    read_header,
)
from drkit.wire.merge import FEW_RECORDS, WHOLE_FROM, Group, Usual
from drkit.wire.rebuild import Recipe, rebuild
from drkit.wire.records import LARGEST_JOINED, pieces_in_parts, scan, unpack_small

_NO_END: Final = 1 << 63
_ANY_NUMBER: Final = 1 << 31
"""More records than a batch can have."""
_NONE_KEPT: Final = 0, frozenset[int]()
_RECORDS_AT: Final = HEADER_SIZE - CRC_START
_PLAIN: Final = frozenset(
    bits | codec for bits in (0, DELETE_HORIZON_BIT) for codec in range(len(CODEC_NAMES))
)
"""Attributes of batches that need no further checks."""
_PLAIN_TRANSACTIONAL: Final = _PLAIN | {bits | TRANSACTIONAL_BIT for bits in _PLAIN}
"""The same when nothing was aborted."""


class _Pass:
    """One call of :func:`transform`; its fields are that function's arguments."""

    def __init__(
        self,
        buffer: bytes,
        position: int,
        end: int,
        aborted: Sequence[tuple[int, int]],
        skip: frozenset[int],
        skip_before: int,
        below: int,
        up_to: int,
        largest: int,
        *,
        copy_again: bool,
        kept: tuple[int, frozenset[int]],
        most_records: int,
    ) -> None:
        self._buffer = buffer
        self._position = position
        self._end = end
        self._aborted = AbortedTransactions(aborted)
        self._skip = skip
        self._skip_before = skip_before
        self._copy_again = copy_again
        self._kept_end, self._kept = kept
        self._below = below
        self._largest = largest
        self.done = Transformed(next_source=position)
        self.group = Group(buffer, self.done, up_to, largest)
        plain = _PLAIN if aborted else _PLAIN_TRANSACTIONAL
        if copy_again and position < skip_before:  # from the cut on each batch is checked
            skip, end = frozenset(), min(end, skip_before)
        self._usual = Usual(plain, skip | self._kept, min(below - 1, largest) - LENGTH_END, end)
        self._most = most_records
        self._taken_apart = 0
        """Records since the last part of the result."""
        self._low = -1

    def run(self) -> Iterator[Transformed]:
        """Yield the results for all complete batches up to the end."""
        buffer, unpack, longest = self._buffer, HEADER.unpack_from, self._usual.longest
        at, size = 0, len(self._buffer)
        while at + HEADER_SIZE <= size:
            fields = unpack(buffer, at)
            is_usual = fields[1] <= longest and fields[-1] < WHOLE_FROM
            if is_usual and (after := self._splice(at)) > at:
                at = after
            else:
                stop = at + check_start(buffer, at, size)
                if stop == at or not (yield from self._take(at, stop, BatchHeader._make(fields))):
                    break
                at = stop
            if self._taken_apart >= self._most:
                yield self._part()
        else:
            check_start(buffer, at, size)
        yield self._part()

    def _part(self) -> Transformed:
        """Return the batches since the last part."""
        self.group.flush()
        done = self.done
        for chunk in done.chunks:
            check_sound(chunk)
        self._taken_apart = 0
        self.done = Transformed(next_source=done.next_source, leader_epoch=done.leader_epoch)
        self.group.write_to(self.done)
        return done

    def _splice(self, at: int) -> int:
        low = max(self._low, self._position)
        after = self.group.splice(at, low, self._usual)
        if after > at:
            self._advance(read_header(self._buffer, self.group.last))
            self._taken_apart += self._low - low
        return after

    def _advance(self, header: BatchHeader) -> None:
        self._low = header.next_offset
        self.done.leader_epoch = header.leader_epoch
        self.done.next_source = max(self.done.next_source, min(header.next_offset, self._end))

    def _take(self, at: int, stop: int, header: BatchHeader) -> Generator[Transformed, None, bool]:
        """Process the batch between two positions; return False to stop before it."""
        if header.base_offset >= self._end:
            return False
        covered = self._buffer[at + CRC_START : stop]
        self._check(header, covered)
        reason = self._reason_to_drop(at, header)
        if reason is DropReason.LOOP and header.last_offset >= self._left_out_before(header):
            self.done.returned = Returned(max(header.base_offset, self._position), header.producer_id)
            return False
        if reason is None:
            yield from self._copy(at, header, covered)
        elif reason is DropReason.BEFORE_POSITION:
            self.done.drop(header.base_offset, header.next_offset, reason)
        else:
            start = max(header.base_offset, self._position)
            self.done.drop(start, min(header.next_offset, self._end), reason)
            if reason is DropReason.LOOP:
                looped = self.done.looped
                looped[header.producer_id] = looped.get(header.producer_id, 0) + header.count
        self._advance(header)
        return True

    def _check(self, header: BatchHeader, covered: bytes) -> None:
        if crc32c(covered) != header.crc:
            raise CorruptBatch(header.base_offset, "CRC-32C does not match")
        if header.codec >= len(CODEC_NAMES):
            raise CorruptBatch(header.base_offset, f"codec {header.codec} does not exist")
        if not 0 <= header.count <= header.last_offset_delta + 1:
            reason = f"{header.count} records in {header.last_offset_delta + 1} offsets"
            raise CorruptBatch(header.base_offset, reason)
        if header.base_offset < self._low:
            raise CorruptBatch(header.base_offset, f"it begins before {self._low}, the end of the last one")

    def _reason_to_drop(self, at: int, header: BatchHeader) -> DropReason | None:
        attributes = header.attributes
        if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            self._aborted.advance(header.last_offset)
            if attributes & CONTROL_BIT:
                self._aborted.end(header, memoryview(self._buffer)[at : at + header.size])
        if header.last_offset < self._position:
            return DropReason.BEFORE_POSITION
        if attributes & CONTROL_BIT:
            return DropReason.CONTROL
        if self._aborted.hides(header):
            return DropReason.ABORTED
        if header.producer_id in self._kept:
            return DropReason.LOOP
        skipped = header.producer_id in self._skip
        if skipped and not (self._copy_again and header.last_offset < self._skip_before):
            return DropReason.LOOP
        return None if header.count else DropReason.EMPTY

    def _left_out_before(self, header: BatchHeader) -> int:
        """The source offset from which on a batch that may not be copied should not exist."""
        return self._kept_end if header.producer_id in self._kept else self._skip_before

    def _copy(self, at: int, header: BatchHeader, covered: bytes) -> Iterator[Transformed]:
        how = self._how(header)
        small = header.size < self._below and header.count <= FEW_RECORDS
        if how is not How.FORWARDED:
            yield from self._rewrite(at, header, how, small=small)
        elif not (small and self._join(at, header, covered)):
            self.group.flush()
            self.done.chunks.append(forward(header, covered))

    def _rewrite(self, at: int, header: BatchHeader, how: How, *, small: bool) -> Iterator[Transformed]:
        low, high = max(self._position, header.base_offset), min(header.next_offset, self._end)
        batch, is_empty = memoryview(self._buffer)[at : at + header.size], True
        recipe = Recipe(header.codec, header.leader_epoch, self._largest, how)
        for found in pieces_in_parts(header, batch, self._most):
            self._taken_apart += len(found)
            records = [r for r in found if low <= r[0] < high] if how is How.SLICED else found
            if records:
                if small and sum(len(body) for _, _, body in records) <= LARGEST_JOINED:
                    self.group.add(at, header, records, how)
                else:
                    self.group.flush()
                    self.done.chunks += rebuild(records, recipe)
                is_empty, self.done.next_source = False, records[-1][0] + 1
            if self._taken_apart >= self._most:
                self.done.leader_epoch = header.leader_epoch
                yield self._part()
        if is_empty:
            self.done.drop(low, high, DropReason.EMPTY)

    def _join(self, at: int, header: BatchHeader, covered: bytes) -> bool:
        """Join a batch with its neighbours; False when it unpacks to too much for that.

        Brokers look into compressed batches, so one that is forwarded unread is what it says.
        """
        data = unpack_small(header.codec, covered[_RECORDS_AT:], header.base_offset)
        if data is None:
            return False
        if header.count >= WHOLE_FROM:
            self.group.add_whole(at, header, data)
            self._taken_apart += header.count
            return True
        records = scan(
            data, header.base_offset, header.base_timestamp, header.last_offset_delta, header.count
        )
        self.group.add(at, header, records, How.FORWARDED)
        self._taken_apart += header.count
        return True

    def _how(self, header: BatchHeader) -> How:
        if header.base_offset < self._position or header.last_offset >= self._end:
            return How.SLICED
        if header.count != header.last_offset_delta + 1:
            return How.RENUMBERED
        if header.attributes & LOG_APPEND_TIME_BIT:
            return How.REBUILT
        if header.size > self._largest and header.count > 1:
            return How.REBUILT
        return How.FORWARDED


def transform(
    buffer: bytes | bytearray | memoryview,
    *,
    position: int,
    end: int | None,
    aborted: Sequence[tuple[int, int]],
    skip_producer_ids: frozenset[int],
    skip_before: int | None = None,
    copy_again: bool = False,
    kept: tuple[int, frozenset[int]] = _NONE_KEPT,
    merge_below: int,
    merge_up_to: int,
    max_batch_bytes: int,
    most_records: int = _ANY_NUMBER,
) -> Iterator[Transformed]:
    """Turn the records of one partition in a Fetch answer into batches for the target, in one or more parts.

    :param buffer: the record batches as fetched; the last may be cut off
    :param position: first wanted source offset; a fetch inside a batch returns all of it
    :param end: first source offset not wanted, None without a limit
    :param aborted: the answer's aborted transactions: producer id, first offset
    :param skip_producer_ids: producers of the opposite flow, whose records would go round in circles
    :param skip_before: a batch of theirs at or after it ends the result (:attr:`Transformed.returned`)
    :param copy_again: those before it are not left out either: the target was emptied
    :param kept: before this source offset, batches of these producers are left out; later ones end it, too
    :param merge_below: batches of fewer bytes, and of few records, are joined with neighbours; 0: none
    :param merge_up_to: bytes of an uncompressed merged batch at most; of compressed ones, the sum before
    :param max_batch_bytes: largest batch the target takes; only a single record can make a larger chunk
    :param most_records: taken apart for one part, about: each needs 500 bytes and 1 to 2 µs. Every part is
        complete: what follows its end may be fetched again.

    Checksums are verified (2 % of what fetching and appending costs). Raises CorruptBatch where one does not
    match, a header contradicts the records that are looked at, or the message format is before 2.
    """
    work = _Pass(
        buffer=buffer if isinstance(buffer, bytes) else bytes(buffer),
        position=position,
        end=_NO_END if end is None else end,
        aborted=aborted,
        skip=skip_producer_ids,
        skip_before=_NO_END if skip_before is None else skip_before,
        copy_again=copy_again,
        kept=kept,
        below=merge_below,
        up_to=merge_up_to,
        largest=max_batch_bytes,
        most_records=most_records,
    )
    return work.run()
