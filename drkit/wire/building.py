"""Writing records into a new batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drkit.wire.codecs import compress, crc32c
from drkit.wire.header import CRC_AT, CRC_START, HEADER, HEADER_SIZE, LENGTH_END, MAGIC
from drkit.wire.records import HALF_RANGE_MS, Piece, Record
from drkit.wire.varint import VARINTS, short_varint, varint

_BLANK: Final = bytes(HEADER_SIZE)
"""Room for a header: the records are joined right after it."""
_EARLIEST: Final = 2048
_HEADS: Final = (
    *(b"\x00" + varint(delta) for delta in range(-_EARLIEST, 0)),
    *(b"\x00" + delta for delta in VARINTS),
)
"""A record's attributes and timestamp delta; a delta of 0 is at ``_EARLIEST``: 2 s back, 16 s forward."""


class TimesApartError(ValueError):
    """Times of records that are too far apart for one batch."""


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
