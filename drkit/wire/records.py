"""Records inside a batch: reading them as a consumer does, and writing them into a new batch.

A record on the wire is ``length, attributes (1 byte, unused), timestamp delta, offset delta`` and then what
never changes however the record is moved: key, value and headers. drkit handles that rest as one piece of
bytes (:class:`Piece`), because copying needs no more; only :func:`decode` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from drkit.wire.codecs import CodecError, compress, crc32c, decompress
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


class Record(NamedTuple):
    """A record as a consumer sees it; ``timestamp`` in milliseconds since 1970, header keys as raw bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class Piece(NamedTuple):
    """A record on its way from batch to batch: source offset, consumer-visible time, encoded rest."""

    offset: int
    timestamp: int
    body: bytes


def pieces(header: BatchHeader, batch: bytes | bytearray | memoryview) -> list[Piece]:
    """The records of a batch, unpacked but not taken apart, with the times a consumer sees.

    Raises CorruptBatch when the header lies (another number of records, offsets that do not rise or lie
    outside the batch) or the bytes are no records.
    """
    try:
        data = decompress(header.codec, bytes(batch[HEADER_SIZE:]))
        found = _scan(header, data)
    except (CodecError, IndexError, ValueError) as error:
        raise CorruptBatch(header.base_offset, f"records cannot be read: {error}") from error
    if len(found) != header.count:
        reason = f"header says {header.count} records, {len(found)} are inside"
        raise CorruptBatch(header.base_offset, reason)
    return found


def _scan(header: BatchHeader, data: bytes) -> list[Piece]:
    base_offset, last, base_time = header.base_offset, header.last_offset_delta, header.base_timestamp
    # KIP-32: with LogAppendTime every record has the batch's max timestamp, whatever the producer wrote.
    # With a delete horizon (KIP-534) the base timestamp *is* the horizon and the deltas are relative to it
    # (MemoryRecordsBuilder sets baseTimestamp = deleteHorizonMs): the sum is the record's own time as ever.
    fixed_time = header.max_timestamp if header.is_log_append_time else None
    found: list[Piece] = []
    at, end, previous = 0, len(data), -1
    while at < end:
        length, at = read_varint(data, at)
        stop = at + length
        if length < 0 or stop > end:
            raise ValueError(f"record of {length} bytes in {end - at}")
        time_delta, at = read_varint(data, at + 1)
        offset_delta, at = read_varint(data, at)
        if not previous < offset_delta <= last or at > stop:
            raise ValueError(f"offset delta {offset_delta} behind {previous}, last is {last}")
        previous = offset_delta
        time = base_time + time_delta if fixed_time is None else fixed_time
        found.append(Piece(base_offset + offset_delta, time, data[at:stop]))
        at = stop
    return found


def decode(header: BatchHeader, batch: bytes | bytearray | memoryview) -> list[Record]:
    """The records of a batch as a consumer sees them. Raises CorruptBatch."""
    try:
        return [Record(offset, time, *_take_apart(body)) for offset, time, body in pieces(header, batch)]
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
        raise ValueError(f"{len(body) - at} bytes left behind the headers")
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
    batch = build([Piece(record.offset, record.timestamp, _body(record)) for record in records], codec)
    if leader_epoch != -1:
        batch[LENGTH_END : LENGTH_END + 4] = leader_epoch.to_bytes(4, "big", signed=True)
    return batch


def build(records: Sequence[Piece], codec: int) -> bytearray:
    """One batch of ``records`` (at least one), numbered from 0 without gaps; see :func:`encode`."""
    if not records:
        raise ValueError("a batch needs a record")
    base_time = records[0].timestamp
    last_time = base_time
    parts: list[bytes] = []
    table = len(VARINTS)
    for number, (_, time, body) in enumerate(records):
        last_time = max(last_time, time)
        delta = time - base_time
        head = (VARINTS[delta] if 0 <= delta < table else varint(delta)) + short_varint(number)
        parts += (short_varint(1 + len(head) + len(body)), b"\x00", head, body)
    return assemble(b"".join(parts), codec, len(records), base_time, last_time)


def assemble(data: bytes, codec: int, count: int, base_time: int, last_time: int) -> bytearray:
    """A batch around ``data``, the encoded records with offsets 0 … ``count``-1. The CRC is set."""
    packed = compress(codec, data)
    length = HEADER_SIZE - LENGTH_END + len(packed)
    head = HEADER.pack(0, length, -1, MAGIC, 0, codec, count - 1, base_time, last_time, -1, -1, -1, count)
    batch = bytearray(head)
    batch += packed
    crc = crc32c(bytes(memoryview(batch)[CRC_START:]))
    batch[CRC_AT:CRC_START] = crc.to_bytes(4, "big")
    return batch
