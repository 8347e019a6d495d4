"""Records inside a batch, read as a consumer does; :mod:`drkit.wire.building` writes them.

A record on the wire is ``length, attributes (1 byte, unused), timestamp delta, offset delta`` and then what
never changes however the record is moved: key, value and headers. drkit handles that rest as one piece of
bytes (:data:`Piece`), because copying needs no more; only :func:`decode` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drkit.wire.codecs import MAX_DECOMPRESSED, CodecError, TooLargeError, decompress
from drkit.wire.header import HEADER_SIZE, BatchHeader, CorruptBatch
from drkit.wire.varint import read_varint

_MORE: Final = 0x80
_SEVEN: Final = 0x7F
_ZIGZAG: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(_MORE))
"""The numbers that take one byte."""
LEAST_RECORD: Final = 6
"""Attributes, both deltas, no key, no value, no headers: a byte each."""


LARGEST_JOINED: Final = 4 << 20
"""Unpacked bytes of a batch that may be joined with others; a few kilobytes can unpack to much more."""
HALF_RANGE_MS: Final = 1 << 62
"""Milliseconds: 146 million years. The sum of two numbers below it fits the 64 bits of a time."""
_FIRST_TIME: Final = -(1 << 63)
_LAST_TIME: Final = (1 << 63) - 1


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

    Raises CorruptBatch if the header is wrong (another number of records, offsets that do not rise or are
    outside the batch) or the bytes are not records.
    """
    return next(pieces_in_parts(header, batch, header.count + 1, limit))


def pieces_in_parts(
    header: BatchHeader, batch: bytes | bytearray | memoryview, most: int, limit: int = MAX_DECOMPRESSED
) -> Iterator[list[Piece]]:
    """Yield the records of a batch as :func:`pieces` does, at least one list of at most `most` records.

    :raises CorruptBatch: where it finds a fault, so that earlier parts are out by then
    """
    data = unpack(header.codec, bytes(batch[HEADER_SIZE:]), header.base_offset, limit)
    base, _, _, _, _, _, last, base_time, *_, count = header
    is_append_time, append_time = header.is_log_append_time, header.max_timestamp
    begin, number, most = _BEGIN, 0, min(most, count + 1)
    while begin is _BEGIN or begin.at < len(data):
        part, begin = _some(data, base, 0 if is_append_time else base_time, last, begin, most)
        number += len(part)
        _check_count(base, count, number, is_all=begin.at >= len(data))
        # KIP-32: every record has the time at which the broker took the batch, whatever the producer wrote.
        yield [(offset, append_time, body) for offset, _, body in part] if is_append_time else part


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
    """Return the records in ``data``; takes header fields, because a merge creates no header object.

    With a delete horizon (KIP-534) the base timestamp *is* the horizon and the deltas are relative to it
    (Kafka's MemoryRecordsBuilder), so base plus delta is still the record's own time.
    Raises CorruptBatch, see :func:`pieces`.
    """
    found, _ = _some(data, base_offset, base_time, last, _BEGIN, count + 1)
    _check_count(base_offset, count, len(found), is_all=True)
    return found


def _check_count(base_offset: int, count: int, found: int, *, is_all: bool) -> None:
    if found > count or (is_all and found < count):
        inside = "more" if found > count else str(found)
        raise CorruptBatch(base_offset, f"header says {count} records, {inside} are inside")


class _Position(NamedTuple):
    """A position between two records."""

    at: int
    """Bytes before it."""
    previous: int
    """Offset delta of the record before it."""


_BEGIN: Final = _Position(0, -1)


def _some(
    data: bytes, base_offset: int, base_time: int, last: int, begin: _Position, most: int
) -> tuple[list[Piece], _Position]:
    """Return at most `most` records from a position on, and the position after them."""
    try:
        found, end = _scan(data, base_offset, base_time, last, begin, most)
    except (IndexError, ValueError) as error:
        raise CorruptBatch(base_offset, f"records cannot be read: {error}") from error
    if not -HALF_RANGE_MS < base_time < HALF_RANGE_MS and not all(
        _FIRST_TIME <= time <= _LAST_TIME for _, time, _ in found
    ):
        raise CorruptBatch(base_offset, "a record's time has more than 64 bits")
    return found, end


def _scan(
    data: bytes, base_offset: int, base_time: int, last: int, begin: _Position, most: int
) -> tuple[list[Piece], _Position]:
    """Decode records in a loop: varints of one or two bytes inline, longer ones by a call."""
    found: list[Piece] = []
    (at, previous), append, zigzag, end = begin, found.append, _ZIGZAG, len(data)
    for _ in range(most):
        if at >= end:
            break
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
    return found, _Position(at, previous)


def _deltas(data: bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Return timestamp and offset delta of a record and the position after them; for varints over a byte."""
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
    header: BatchHeader,
    batch: bytes | bytearray | memoryview,
    limit: int = MAX_DECOMPRESSED,
    headers: int = MAX_DECOMPRESSED,
) -> list[Record]:
    """Return the records of a batch as a consumer sees them.

    :param limit: maximum size in bytes of the unpacked records
    :param headers: a record with more headers is returned without any: a header of two bytes takes forty
        times that in memory
    :raises CorruptBatch: they cannot be read, or there are more bytes
    """
    try:
        found = pieces(header, batch, limit)
        return [Record(offset, time, *_take_apart(body, headers)) for offset, time, body in found]
    except (IndexError, ValueError) as error:
        raise CorruptBatch(header.base_offset, f"a record cannot be read: {error}") from error


def _take_apart(
    body: bytes, most: int
) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
    key, at = _read_bytes(body, 0)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    if count > most:
        return key, value, ()
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
