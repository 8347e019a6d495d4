"""An exported record, a hole, and their canonical bytes for hashes. Pure.

The canonical bytes of a record are the same whatever file it is in: big-endian numbers, and every text after
its length, so that no two records have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
import hashlib
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

_RECORD: Final = Struct(">cqqbq")
_HOLE: Final = Struct(">cqq")
_LENGTH: Final = Struct(">i")
_SPAN: Final = Struct(">16siqq")
_PART: Final = Struct(">qq32s")
_NO_BYTES: Final = _LENGTH.pack(-1)
_OF_PART: Final = b"drkit export part 1\0"
_OF_PARTITION: Final = b"drkit export partition 1\0"


class HoleKind(StrEnum):
    """The reason why an offset holds no exported record."""

    MARKER = "marker"
    """The marker that ends a transaction."""
    ABORTED = "aborted"
    """A record of an aborted transaction."""
    COPIED_BACK = "copied_back"
    """A record that drkit itself copied there from the other cluster."""
    COMPACTED = "compacted"
    """Compaction removed the record: a later one has its key, or it was a tombstone."""
    REMOVED = "removed"
    """Before the start of the log: retention, or DeleteRecords."""


class Hole(NamedTuple):
    """Offsets from `first` up to but without `end`."""

    first: int
    end: int
    kind: HoleKind

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return self.end - self.first


class TimestampType(IntEnum):
    """The source of a record's time (KIP-32); the numbers are Kafka's."""

    CREATE_TIME = 0
    """The producer."""
    LOG_APPEND_TIME = 1
    """The broker that took it."""


class ExportedRecord(NamedTuple):
    """A record as it was on the old primary."""

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    """−1: the producer was not idempotent."""

    @property
    def size(self) -> int:
        """Bytes of its key, value and headers."""
        headers = sum(len(name) + len(content or b"") for name, content in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


Item = ExportedRecord | Hole


def record_bytes(record: ExportedRecord) -> bytes:
    """Return the canonical bytes of a record."""
    offset, timestamp, kind, key, value, headers, producer_id = record
    parts = [_RECORD.pack(b"R", offset, timestamp, kind, producer_id), *_sized(key), *_sized(value)]
    parts.append(_LENGTH.pack(len(headers)))
    for name, content in headers:
        parts += (*_sized(name), *_sized(content))
    return b"".join(parts)


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (_NO_BYTES,) if data is None else (_LENGTH.pack(len(data)), data)


class Chain:
    """A hash over records and holes in order: a missing, changed, doubled or moved one gives another hash."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def record(self, record: ExportedRecord) -> None:
        """Add the next record."""
        self._hash.update(record_bytes(record))

    def hole(self, hole: Hole) -> None:
        """Add the next hole."""
        self._hash.update(_HOLE.pack(b"H", hole.first, hole.end) + hole.kind.encode() + b"\0")

    def result(self, topic_id: UUID, partition: int, first: int, end: int) -> str:
        """Return the hash of the range [first, end), in hexadecimal digits."""
        span = _SPAN.pack(topic_id.bytes, partition, first, end)
        return hashlib.sha256(_OF_PART + span + self._hash.digest()).hexdigest()


def chain_of_parts(
    topic_id: UUID, partition: int, first: int, end: int, parts: Iterable[tuple[int, int, str]]
) -> str:
    """Return the chain of a partition: the hash over the first offset, end and chain of each part."""
    digest = hashlib.sha256(_OF_PARTITION + _SPAN.pack(topic_id.bytes, partition, first, end))
    for part_first, part_end, chain in parts:
        digest.update(_PART.pack(part_first, part_end, bytes.fromhex(chain)))
    return digest.hexdigest()
