"""The header of a record batch, format version 2 (KIP-98; Kafka's ``DefaultRecordBatch``).

All integers are big-endian. The CRC-32C covers everything from the attributes (byte 21) to the end, so a
broker may write the base offset and the leader epoch, which lie before it, without touching the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from drkit.errors import Failed

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max
timestamp, producer id, producer epoch, base sequence, record count."""

HEADER_SIZE: Final = HEADER.size
"""Bytes before the first record (or before the compressed records): 61."""

LENGTH_END: Final = 12
"""The length field counts what follows it: a batch is ``length + 12`` bytes long."""

CRC_AT: Final = 17
"""Position of the CRC field."""

CRC_START: Final = 21
"""First byte that the CRC covers: the attributes."""

LAST_OFFSET_DELTA_AT: Final = 23
COUNT_AT: Final = 57

PRODUCER_AT: Final = 43
"""Position of producer id, producer epoch and base sequence."""

MAGIC: Final = 2

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_START: Final = Struct(">qiib")


class CorruptBatch(Failed):
    """Bytes from a log that are not a whole and sound record batch.

    :param offset: the base offset the batch claims, -1 when it cannot be read
    :param reason: what is wrong with it
    """

    def __init__(self, offset: int, reason: str) -> None:
        where = f"source offset {offset}"
        super().__init__("corrupt_batch", where=where, evidence=reason, offset=offset, reason=reason)
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.offset, self.reason))


class BatchHeader(NamedTuple):
    """The fixed 61 bytes in front of a batch; field order is the order on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not called on a header

    @property
    def codec(self) -> int:
        """Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_BITS

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch is part of a transaction (KIP-98)."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a transaction marker instead of records (KIP-98)."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's clock counts: every record then has the batch's max timestamp (KIP-32)."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was appended with; compaction may have removed it since."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset to fetch after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_END


def check_start(buffer: bytes | bytearray | memoryview, position: int, size: int) -> int:
    """The size in bytes of the batch at ``position``, 0 when the ``size`` bytes end inside it.

    Raises CorruptBatch for formats 0 and 1 and for lengths no batch can have.
    """
    if size - position < _START.size:
        return 0
    offset, length, _, magic = _START.unpack_from(buffer, position)
    if magic != MAGIC:
        # Brokers of version 4 no longer store the older formats (KIP-724), older ones may.
        known = "an old message format" if magic in (0, 1) else "an unknown format"
        raise CorruptBatch(offset, f"magic {magic} is {known}; only record batches (magic 2) can be copied")
    if length < HEADER_SIZE - LENGTH_END:
        raise CorruptBatch(offset, f"length {length} is smaller than a batch header")
    whole: int = length + LENGTH_END
    return whole if position + whole <= size else 0


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header of the batch that begins at ``position``.

    Raises CorruptBatch when there are fewer than 61 bytes, or they are no header of format 2.
    """
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptBatch(-1, f"{len(buffer) - position} bytes are too few for a batch header")
    check_start(buffer, position, len(buffer))
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def split(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of a fetch answer, without copying.

    A fetch answer usually ends inside a batch: that piece is left out silently. Raises CorruptBatch.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while size := check_start(view, position, end):
        yield BatchHeader._make(HEADER.unpack_from(view, position)), view[position : position + size]
        position += size
