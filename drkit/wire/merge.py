"""Joining small batches: a request per one-record batch would be slower than copying records.

Batches wait in a group until it is full, the codec changes, or a batch is forwarded alone. Producers without
linger send one record a batch, so usual batches go through one loop that creates no object for a header or a
record, and splices the bytes of an uncompressed one-record batch without decoding any varint.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from drkit.wire.chunk import Chunk, How, Transformed, Whole
from drkit.wire.codecs import NONE, crc32c
from drkit.wire.forward import forward
from drkit.wire.header import CODEC_BITS, CRC_START, HEADER_SIZE, LENGTH_END, MAGIC, BatchHeader, read_header
from drkit.wire.rebuild import Recipe, rebuild
from drkit.wire.records import Piece, scan, unpack_small
from drkit.wire.varint import VARINTS

_FIELDS: Final = Struct(">qi4xbIhiq8xq6xi")
"""The fields that matter here of a batch header."""

FEW_RECORDS: Final = 100
"""A batch of more records is cheaper to forward than to merge: see docs/internal/decisions/0004."""

WHOLE_FROM: Final = 12
"""From this number of records on, arrays are faster than a loop."""

_EMPTY_LENGTH: Final = HEADER_SIZE - LENGTH_END
_RECORD_AT: Final = HEADER_SIZE - CRC_START
_NO_RECORD: Final = b"\xff" * 8
_VARINT_GROWTH: Final = 8
"""Bytes that a record can grow by when its deltas are counted from another base."""
_RAW_FACTOR: Final = 4
"""Unpacked bytes that count as one byte of a group: memory stays bounded at any compression ratio."""


def _first_bytes(size: int) -> bytes:
    """Return the usual first bytes of a record of ``size`` bytes: length, attributes, and both deltas 0."""
    for width in (1, 2, 3):
        if 0 <= size - width < len(VARINTS) and len(VARINTS[size - width]) == width:
            return VARINTS[size - width] + b"\x00\x00\x00"
    return _NO_RECORD


_FIRST_BYTES: Final = tuple(_first_bytes(size) for size in range(len(VARINTS)))
_TABLE_END: Final = _EMPTY_LENGTH + len(_FIRST_BYTES)


class Usual(NamedTuple):
    """Limits for batches that are joined without further checks: no holes, inside the range, small."""

    attributes: frozenset[int]
    skip_producer_ids: frozenset[int]
    longest: int
    """Largest value of the length field."""
    end: int
    """First source offset not wanted."""


class Group:
    """The small batches that wait to become one."""

    def __init__(self, buffer: bytes, done: Transformed, up_to: int, max_batch_bytes: int) -> None:
        self._buffer = buffer
        self._done = done
        self._space = min(up_to, max_batch_bytes) - HEADER_SIZE
        self._max_batch_bytes = max_batch_bytes
        self._start_over(NONE)
        self.last = 0
        """Position of the last batch taken in."""

    def write_to(self, done: Transformed) -> None:
        """Put the next batches there; nothing may wait."""
        self._done = done

    def _start_over(self, codec: int) -> None:
        self._records: list[Piece] = []
        self._whole: list[Whole] = []
        """Batches to join unchanged; they are decoded as soon as a single record is added."""
        self._codec = codec
        self._batches = 0
        self._room = self._space
        self._how = How.FORWARDED

    def add(self, at: int, header: BatchHeader, records: list[Piece], how: How) -> None:
        """Add the ``records`` of the unusual batch at ``at``; ``how`` is its processing."""
        self._make_room(header, sum(len(body) for _, _, body in records) // _RAW_FACTOR)
        if self._batches == 1:
            self._how = how
        self._take_apart()
        self._records += records
        self.last = at

    def add_whole(self, at: int, header: BatchHeader, data: bytes) -> None:
        """Add the batch at ``at``, which has no holes, with its unpacked records. Raises CorruptBatch."""
        self._make_room(header, len(data) // _RAW_FACTOR)
        self._whole.append(Whole(header.base_offset, header.base_timestamp, header.count, data))
        if self._records:
            self._take_apart()
        self.last = at

    def _make_room(self, header: BatchHeader, unpacked: int) -> None:
        need = max(unpacked, header.length - _EMPTY_LENGTH + _VARINT_GROWTH * header.count)
        if self._batches and (header.codec != self._codec or need > self._room):
            self.flush()
        if not self._batches:
            self._start_over(header.codec)
        self._batches += 1
        self._room -= need

    def _take_apart(self) -> None:
        """Raises CorruptBatch."""
        for base, time, count, data in self._whole:
            self._records += scan(data, base, time, count - 1, count)
        self._whole.clear()

    def splice(self, at: int, low: int, usual: Usual) -> int:
        """Add the usual batches from ``at`` on; return the position after the last.

        Unusual batches (also a bad checksum, a truncated batch or one that unpacks to many bytes) are left to
        the general code, as are batches after a full group. ``low`` is the smallest valid next offset. Raises
        CorruptBatch.
        """
        start = at
        while True:
            at, low, next_codec = self._splice_until_full(at, low, usual)
            if next_codec < 0:
                return at
            self.flush()
            self._codec = next_codec
            if at > start:
                return at

    def _splice_until_full(self, at: int, low: int, usual: Usual) -> tuple[int, int, int]:
        """Return the position, the next offset, and the codec of the next group, or -1 to stop."""
        buffer, fields, first_bytes, checksum = self._buffer, _FIELDS.unpack_from, _FIRST_BYTES, crc32c
        attributes, skip, longest, end = usual
        records, room, codec, batches, whole = self._records, self._room, self._codec, 0, self._whole
        append, last, last_start, next_codec = records.append, self.last, len(buffer) - HEADER_SIZE, -1
        while at <= last_start:
            base, length, magic, crc, bits, delta, time, producer_id, count = fields(buffer, at)
            if (
                bits not in attributes
                or not _EMPTY_LENGTH < length <= longest
                or magic != MAGIC
                or base < low
                or base + delta >= end
                or not 0 <= delta == count - 1
                or count >= WHOLE_FROM
                or producer_id in skip
            ):
                break
            body = buffer[at + CRC_START : at + LENGTH_END + length]
            if checksum(body) != crc:
                break
            need = length - _EMPTY_LENGTH + _VARINT_GROWTH * count
            if (need > room and records) or bits & CODEC_BITS != codec:
                next_codec = bits & CODEC_BITS
                break
            if whole:
                self._take_apart()
            if (
                not delta
                and not codec
                and length < _TABLE_END
                and body.startswith(first := first_bytes[length - _EMPTY_LENGTH], _RECORD_AT)
            ):
                append((base, time, body[_RECORD_AT + len(first) :]))
            else:
                data = unpack_small(codec, body[_RECORD_AT:], base)
                if data is None:
                    break
                records += scan(data, base, time, delta, count)
                need = max(need, len(data) // _RAW_FACTOR)
            room -= need
            batches += 1
            low, last = base + count, at
            at += LENGTH_END + length
        self.last, self._room, self._batches = last, room, self._batches + batches
        return at, low, next_codec

    def flush(self) -> None:
        """Finish the group; no batch waits afterwards."""
        if not self._batches:
            return
        last = read_header(self._buffer, self.last)
        if self._batches == 1 and self._how is How.FORWARDED:
            self._take_apart()  # it is forwarded unchanged, but small batches are always checked
            covered = self._buffer[self.last + CRC_START : self.last + last.size]
            self._done.chunks.append(forward(last, covered))
        else:
            how = How.MERGED if self._batches > 1 else self._how
            recipe = Recipe(last.codec, last.leader_epoch, self._max_batch_bytes, how)
            self._done.chunks += self._joined(recipe)
        self._start_over(NONE)

    def _joined(self, recipe: Recipe) -> Iterable[Chunk]:
        if self._whole:
            from drkit.wire.join import join  # noqa: PLC0415  loads numpy and pyarrow

            chunk = join(self._whole, recipe)
            if chunk:
                return (chunk,)
            self._take_apart()
        return rebuild(self._records, recipe)
