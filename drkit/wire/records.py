"""Records inside a batch: reading them as a consumer does, and writing them into a new batch.

A record on the wire is ``length, attributes (1 byte, unused), timestamp delta, offset delta`` and then what
never changes however the record is moved: key, value and headers. drkit handles that rest as one piece of
bytes (:data:`Piece`), because copying needs no more; only :func:`decode` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from drkit.wire.codecs import MAX_DECOMPRESSED, CodecError, TooLargeError, compress, crc32c, decompress
from drkit.wire.header import (
    CRC_AT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    CorruptBatch,
)
from drkit.wire.varint import VARINTS, read_varint, short_varint, varint

_BLANK: Final = bytes(HEADER_SIZE)
"""Room for a header: the records are joined right after it."""
_MORE: Final = 0x80
_SEVEN: Final = 0x7F
_ZIGZAG: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(_MORE))
"""The numbers that take one byte."""
LEAST_RECORD: Final = 6
"""Attributes, both deltas, no key, no value, no headers: a byte each."""
_EARLIEST: Final = 2048
_HEADS: Final = (
    *(b"\x00" + varint(delta) for delta in range(-_EARLIEST, 0)),
    *(b"\x00" + delta for delta in VARINTS),
)
"""A record's attributes and timestamp delta; a delta of 0 is at ``_EARLIEST``: 2 s back, 16 s forward."""


LARGEST_JOINED: Final = 4 << 20
"""Unpacked bytes of a batch that may be joined with others; a few kilobytes can unpack to much more."""
HALF_RANGE_MS: Final = 1 << 62
"""Milliseconds: 146 million years. The sum of two numbers below it fits the 64 bits of a time."""
_FIRST_TIME: Final = -(1 << 63)
_LAST_TIME: Final = (1 << 63) - 1


class TimesApartError(ValueError):
    """Times of records that are too far apart for one batch."""


class Record(NamedTuple):
    """A record as a consumer sees it; ``timestamp`` in milliseconds since 1970, header keys as raw bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


Piece = tuple[int, int, bytes]
"""A record between two batches: source offset, consumer-visible time in ms, encoded rest.

A bare tuple: naming its fields would cost a third of the time of the whole merge.
"""


def pieces(
    header: BatchHeader, batch: bytes | bytearray | memoryview, limit: int = MAX_DECOMPRESSED
) -> list[Piece]:
    """The records of a batch, unpacked but not taken apart, with the times a consumer sees.

    :param limit: maximum size in bytes of the unpacked records

    Raises CorruptBatch when the header lies (another number of records, offsets that do not rise or lie
    outside the batch) or the bytes are no records.
    """
    data = unpack(header.codec, bytes(batch[HEADER_SIZE:]), header.base_offset, limit)
    base, _, _, _, _, _, last, base_time, *_, count = header
    if header.is_log_append_time:
        # KIP-32: every record has the time at which the broker took the batch, whatever the producer wrote.
        return [(offset, header.max_timestamp, body) for offset, _, body in scan(data, base, 0, last, count)]
    return scan(data, base, base_time, last, count)


def unpack(codec: int, packed: bytes, base_offset: int, limit: int = MAX_DECOMPRESSED) -> bytes:
    """The bytes after a batch header, decompressed. Raises CorruptBatch."""
    try:
        return decompress(codec, packed, limit)
    except CodecError as error:
        raise _not_packed(base_offset, error) from error


def unpack_small(codec: int, packed: bytes, base_offset: int) -> bytes | None:
    """As :func:`unpack`; None when it is more than :data:`LARGEST_JOINED`. Raises CorruptBatch."""
    try:
        return decompress(codec, packed, LARGEST_JOINED)
    except TooLargeError:
        return None
    except CodecError as error:
        raise _not_packed(base_offset, error) from error


def _not_packed(base_offset: int, error: CodecError) -> CorruptBatch:
    return CorruptBatch(base_offset, f"records cannot be unpacked: {error}")


def scan(data: bytes, base_offset: int, base_time: int, last: int, count: int) -> list[Piece]:
    """The records in ``data``; takes the fields of a header, because a merge makes no object of it.

    With a delete horizon (KIP-534) the base timestamp *is* the horizon and the deltas are relative to it
    (Kafka's MemoryRecordsBuilder), so base plus delta is still the record's own time.
    Raises CorruptBatch, see :func:`pieces`.
    """
    try:
        found = _scan(data, base_offset, base_time, last)
    except (IndexError, ValueError) as error:
        raise CorruptBatch(base_offset, f"records cannot be read: {error}") from error
    if len(found) != count:
        raise CorruptBatch(base_offset, f"header says {count} records, {len(found)} are inside")
    if not -HALF_RANGE_MS < base_time < HALF_RANGE_MS and not all(
        _FIRST_TIME <= time <= _LAST_TIME for _, time, _ in found
    ):
        raise CorruptBatch(base_offset, "a record's time has more than 64 bits")
    return found


def _scan(data: bytes, base_offset: int, base_time: int, last: int) -> list[Piece]:
    """The one loop over records: varints of one or two bytes are read in line, longer ones by a call."""
    found: list[Piece] = []
    append, zigzag, at, end, previous = found.append, _ZIGZAG, 0, len(data), -1
    while at < end:
        length = data[at]
        if length < _MORE:
            length, at = zigzag[length], at + 1
        elif (following := data[at + 1]) < _MORE and not length & 1:
            length, at = (length & _SEVEN | following << 7) >> 1, at + 2
        else:
            length, at = read_varint(data, at)
        stop = at + length
        if length < LEAST_RECORD or stop > end:
            raise ValueError(f"record of {length} bytes in {end - at}")
        delta, offset = data[at + 1], data[at + 2]
        if delta < _MORE and offset < _MORE:  # too short to pass the record's end
            delta, offset, at = zigzag[delta], zigzag[offset], at + 3
        else:
            delta, offset, at = _deltas(data, at + 1, stop)
        if offset <= previous:
            raise ValueError(f"offset delta {offset} follows {previous}")
        previous = offset
        append((base_offset + offset, base_time + delta, data[at:stop]))
        at = stop
    if previous > last:
        raise ValueError(f"offset delta {previous} in a batch that ends at {last}")
    return found


def _deltas(data: bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Timestamp and offset delta of a record and the position after them, when one is longer than a byte."""
    delta, following = data[at], data[at + 1]
    if delta < _MORE:
        delta, at = _ZIGZAG[delta], at + 1
    elif following < _MORE:
        delta = delta & _SEVEN | following << 7
        delta, at = (delta >> 1) ^ -(delta & 1), at + 2
    else:
        delta, at = read_varint(data, at)
        if not -HALF_RANGE_MS < delta < HALF_RANGE_MS:
            raise ValueError(f"timestamp delta of {delta} ms")
    offset = data[at]
    if offset < _MORE:
        offset, at = _ZIGZAG[offset], at + 1
    else:
        offset, at = read_varint(data, at)
    if at > stop:
        raise ValueError("the deltas of a record are past its end")
    return delta, offset, at


def decode(
    header: BatchHeader, batch: bytes | bytearray | memoryview, limit: int = MAX_DECOMPRESSED
) -> list[Record]:
    """The records of a batch as a consumer sees them.

    :param limit: maximum size in bytes of the unpacked records
    :raises CorruptBatch: they cannot be read, or unpack to more
    """
    try:
        found = pieces(header, batch, limit)
        return [Record(offset, time, *_take_apart(body)) for offset, time, body in found]
    except (IndexError, ValueError) as error:
        raise CorruptBatch(header.base_offset, f"a record cannot be read: {error}") from error


def _take_apart(body: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
    key, at = _read_bytes(body, 0)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        content, at = _read_bytes(body, at)
        if name is None:
            raise ValueError("a header without a key")
        headers.append((name, content))
    if count < 0 or at != len(body):
        raise ValueError(f"{len(body) - at} bytes left after the headers")
    return key, value, tuple(headers)


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError(f"field of {length} bytes in {len(data) - at}")
    return data[at : at + length], at + length


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else short_varint(len(data)) + data


def _body(record: Record) -> bytes:
    parts = [_sized(record.key), _sized(record.value), short_varint(len(record.headers))]
    for name, content in record.headers:
        parts += (_sized(name), _sized(content))
    return b"".join(parts)


def encode(records: Iterable[Record], codec: int, *, leader_epoch: int = -1) -> bytearray:
    """One batch of ``records``, which get the offsets 0 … n-1; their times and contents stay.

    CreateTime, no producer, CRC set. ``codec`` as in :attr:`BatchHeader.codec`.
    Raises ValueError without records, CodecError for an unknown codec.
    """
    batch = build([(record.offset, record.timestamp, _body(record)) for record in records], codec)
    if leader_epoch != -1:
        batch[LENGTH_END : LENGTH_END + 4] = leader_epoch.to_bytes(4, "big", signed=True)
    batch[CRC_AT:CRC_START] = crc32c(bytes(memoryview(batch)[CRC_START:])).to_bytes(4, "big")
    return batch


def build(records: Sequence[Piece], codec: int) -> bytearray:
    """One batch of ``records`` (at least one), numbered from 0 without gaps; its CRC is not set.

    :raises TimesApartError: fewer of them may go into a batch
    """
    if not records:
        raise ValueError("a batch needs a record")
    base_time = records[0][1]
    times = [time for _, time, _ in records]
    earliest, latest = min(times) - base_time, max(times)
    if earliest <= -HALF_RANGE_MS or latest - base_time >= HALF_RANGE_MS:
        raise TimesApartError
    parts = None
    if earliest >= -_EARLIEST:  # an index below zero would read the table from its end
        parts = _join_short(records, base_time)
    if parts is None:
        parts = _join_any(records, base_time)
    return close(b"".join(parts), codec, len(records), base_time, latest)


def close(records: bytes | memoryview, codec: int, count: int, base_time: int, max_time: int) -> bytearray:
    """The batch around ``count`` encoded ``records``, numbered from 0 without gaps; its CRC is not set."""
    batch = bytearray().join((_BLANK, compress(codec, records) if codec else records))
    length = len(batch) - LENGTH_END
    HEADER.pack_into(
        batch, 0, 0, length, -1, MAGIC, 0, codec, count - 1, base_time, max_time, -1, -1, -1, count
    )
    return batch


def _join_short(records: Sequence[Piece], base_time: int) -> list[bytes] | None:
    """The usual way; None when a number is not in its table."""
    sizes, heads, zero = VARINTS, _HEADS, _EARLIEST - base_time
    parts: list[bytes] = []
    extend = parts.extend
    try:
        for number, (_, time, body) in enumerate(records):
            head = heads[time + zero]
            offset = sizes[number]
            extend((sizes[len(head) + len(offset) + len(body)], head, offset, body))
    except IndexError:
        return None
    return parts


def _join_any(records: Sequence[Piece], base_time: int) -> list[bytes]:
    parts: list[bytes] = []
    for number, (_, time, body) in enumerate(records):
        head = b"\x00" + varint(time - base_time) + short_varint(number)
        parts += (short_varint(len(head) + len(body)), head, body)
    return parts
