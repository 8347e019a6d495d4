"""MirrorMaker 2's records of offset syncs, checkpoints and heartbeats, byte for byte (KIP-382). Pure.

Kafka's protocol types, big-endian: a STRING is an INT16 length and UTF-8, never null. Readers take partition
0 from the start, the last record of a key wins; nulls and what cannot be parsed are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
import struct
from typing import Final, NamedTuple

VERSION: Final = 0
"""Of the values of checkpoints and heartbeats; offset syncs have none."""
_LONGEST: Final = (1 << 15) - 1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TWO: Final = struct.Struct(">qq")
_VERSIONED_TWO: Final = struct.Struct(">hqq")
_VERSIONED_ONE: Final = struct.Struct(">hq")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """One replicated record's offsets on both sides."""

    topic: str
    """As the source calls it."""
    partition: int
    upstream: int
    downstream: int

    @property
    def key(self) -> bytes:
        """Key of the record."""
        return _string(self.topic) + _INT32.pack(self.partition)

    @property
    def value(self) -> bytes:
        """Value of the record."""
        return _TWO.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> OffsetSync:
        """Read a record. Raises ValueError if it is not of this format."""
        keys, values = _Reader(key), _Reader(value)
        return cls(keys.string(), keys.int32(), values.int64(), values.int64())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on both sides."""

    group: str
    topic: str
    """As the target calls it."""
    partition: int
    upstream: int
    """What the group has committed on the source."""
    downstream: int
    """The next offset to read on the target."""
    metadata: str = ""

    @property
    def key(self) -> bytes:
        """Key of the record."""
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    @property
    def value(self) -> bytes:
        """Value of the record."""
        return _VERSIONED_TWO.pack(VERSION, self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Checkpoint:
        """Read a record. Raises ValueError if it is not of this format or version."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        group, topic, partition = keys.string(), keys.string(), keys.int32()
        return cls(group, topic, partition, values.int64(), values.int64(), values.string())


class CheckpointSeen(NamedTuple):
    """A checkpoint of the checkpoint topic."""

    upstream: int
    downstream: int
    at_ms: int
    """When it was written."""


@dataclass(frozen=True, slots=True)
class ForgottenCheckpoint:
    """Takes a checkpoint back: its group, or its topic, is gone.

    The value is empty, not null: Kafka's `MirrorClient` and MirrorMaker 2 skip a value that they cannot
    parse, and fail at a null with a NullPointerException, whatever group they are asked about.
    """

    group: str
    topic: str
    """As the target calls it."""
    partition: int
    value: bytes = b""

    @property
    def key(self) -> bytes:
        """Key of the record: the checkpoint's."""
        return Checkpoint(self.group, self.topic, self.partition, 0, 0).key

    @classmethod
    def decode(cls, key: bytes) -> ForgottenCheckpoint:
        """Read a key. Raises ValueError if it is no checkpoint's."""
        keys = _Reader(key)
        return cls(keys.string(), keys.string(), keys.int32())


def is_checkpoint(value: bytes) -> bool:
    """Whether a value can be a checkpoint's, by its version and its length; far cheaper than decoding."""
    fixed = _VERSIONED_TWO.size + _INT16.size
    if len(value) < fixed or _INT16.unpack_from(value)[0] != VERSION:
        return False
    (length,) = _INT16.unpack_from(value, _VERSIONED_TWO.size)
    return 0 <= int(length) <= len(value) - fixed


def group_of(key: bytes) -> str | None:
    """The group in a checkpoint's key, without decoding the rest; None without one."""
    try:
        return _Reader(key).string()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life; its age on the target is the delay of the whole path."""

    source: str
    target: str
    timestamp: int
    """Milliseconds since 1970."""

    @property
    def key(self) -> bytes:
        """Key of the record."""
        return _string(self.source) + _string(self.target)

    @property
    def value(self) -> bytes:
        """Value of the record."""
        return _VERSIONED_ONE.pack(VERSION, self.timestamp)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Heartbeat:
        """Read a record. Raises ValueError if it is not of this format or version."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        return cls(keys.string(), keys.string(), values.int64())


class _Reader:
    """Takes Kafka's protocol types off a byte string; ignores bytes after the last one, as MM2 does."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def version(self) -> None:
        found = self._take(_INT16)
        if found != VERSION:
            raise ValueError(f"version {found}, MirrorMaker 2 writes {VERSION}")

    def int32(self) -> int:
        return self._take(_INT32)

    def int64(self) -> int:
        return self._take(_INT64)

    def string(self) -> str:
        length = self._take(_INT16)
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"a string of {length} bytes at {self._at} of {len(self._data)}")
        text = self._data[self._at : end].decode()
        self._at = end
        return text

    def _take(self, form: struct.Struct) -> int:
        try:
            (number,) = form.unpack_from(self._data, self._at)
        except struct.error as error:
            raise ValueError(f"{len(self._data)} bytes end too early: {error}") from error
        self._at += form.size
        return int(number)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST:
        raise ValueError(f"a string of {len(data)} bytes, {_LONGEST} fit")
    return _INT16.pack(len(data)) + data
