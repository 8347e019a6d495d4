"""Records of replays on the new primary: the progress of each partition, and the decision on its tail. Pure.

The decision is stored, not only the offsets on which it is based: retention may since have removed what the
tail was compared with.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar
import zlib

from drkit.flow_state.codec.fields import (
    Count,
    Malformed,
    Many,
    Name,
    Omitted,
    Prose,
    TopicId,
    TopicName,
    checked,
    text,
)
from drkit.flow_state.codec.record import Body
from drkit.model import TopicPartition
from drkit.replay.compare import Same

B = TypeVar("B", bound=Body)
PART: Final = 2_000_000
"""Flags in one record, a byte each: packed less than half a MiB."""
_PROGRESS: Final = "progress"
_FLAGS: Final = "flags"
_QUARANTINE: Final = "quarantine"
_ROLLED_BACK: Final = "rolled-back"


@dataclass(frozen=True, slots=True)
class ReplayProgress(Body):
    """The progress of a tail's replay; written in the transactions that append its records."""

    run_id: Name
    """Of the export."""
    manifest: Annotated[str, checked(text(64, least=64))]
    """SHA-256 of the export's manifest."""
    source_topic: TopicName
    source_id: TopicId
    partition: Count
    first: Count
    end: Count
    """The tail's offsets on the old primary, half open."""
    topic: TopicName
    """On the new primary."""
    topic_id: TopicId
    same: Same
    compared_to: Count
    """Offset on the new primary up to which the tail was compared; later records do not count."""
    records: Count
    """In the tail."""
    next: Count
    """Offset on the old primary up to which every record is accounted for."""
    appended: Count = 0
    already: Count = 0
    kept_back: Count = 0
    begun_ms: Count = 0
    ids: Omitted[Many[Count]] = None
    """The producers that wrote the records, or None if the old primary does not keep the tail."""
    copied_to: Omitted[Count] = None
    """Offset on the new primary after the last of them."""
    rolled_back_ms: Omitted[Count] = None
    """When the return that was to keep the tail was rolled back; what was appended stays."""

    @property
    def is_done(self) -> bool:
        """True once every record is accounted for."""
        return self.next >= self.end

    @property
    def is_open(self) -> bool:
        """True while the run that began it is to append the rest."""
        return not self.is_done and self.rolled_back_ms is None

    @property
    def at(self) -> TopicPartition:
        """The partition on the new primary."""
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> bytes:
        """Its key in the topic."""
        return progress_key(self.run_id, self.at)

    @property
    def rolled_back_key(self) -> bytes:
        """Its key once a replay of the same export begins, which has its own progress."""
        return f"{_ROLLED_BACK}/{self.run_id}/{self.topic}/{self.partition}".encode()


@dataclass(frozen=True, slots=True)
class QuarantineRecord(Body):
    """The run that a topic in quarantine belongs to; written before the topic is created."""

    run_id: Name
    topic: TopicName
    topic_id: TopicId | None = None
    """None if it was about to be created."""

    @property
    def key(self) -> bytes:
        """Its key in the topic."""
        return f"{_QUARANTINE}/{self.topic}".encode()


@dataclass(frozen=True, slots=True)
class _Flags(Body):
    flags: Prose


def progress_key(run_id: str, at: TopicPartition) -> bytes:
    """Return the key of a partition's progress."""
    return f"{_PROGRESS}/{run_id}/{at.topic}/{at.partition}".encode()


def packed(run_id: str, at: TopicPartition, flags: bytes | bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Yield the flags of a tail as records of the topic."""
    for number, key in enumerate(part_keys(run_id, at, len(flags))):
        body = b64encode(zlib.compress(flags[number * PART : (number + 1) * PART])).decode()
        yield key, _Flags(body).encode()


def unpacked(run_id: str, at: TopicPartition, records: int, values: Mapping[bytes, bytes]) -> bytes:
    """Return the flags of a tail, from the records of the topic.

    :param records: in the tail
    :raises Malformed: a part is missing, or not drkit's
    """
    out = bytearray()
    for key in part_keys(run_id, at, records):
        if key not in values:
            raise Malformed(f"{key.decode()} is missing")
        out += _inflated(_Flags.decode(values[key]).flags)
    if len(out) != records:
        raise Malformed(f"{len(out)} flags for {records} records")
    return bytes(out)


def part_keys(run_id: str, at: TopicPartition, records: int) -> Iterator[bytes]:
    """Return the keys of a tail's flags."""
    parts = -(-records // PART)
    return (f"{_FLAGS}/{run_id}/{at.topic}/{at.partition}/{number}".encode() for number in range(parts))


def _inflated(body: str) -> bytes:
    """Return at most :data:`PART` bytes: a few kilobytes can unpack to much more."""
    unpacks = zlib.decompressobj()
    try:
        flags = unpacks.decompress(b64decode(body, validate=True), PART)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise Malformed(f"flags: {error}") from None
    if not unpacks.eof:
        raise Malformed("flags: they are cut off, or too many")
    return flags


@dataclass(slots=True)
class ReplayBook:
    """The topic as read."""

    progress: dict[bytes, ReplayProgress] = field(default_factory=dict)
    rolled_back: dict[bytes, ReplayProgress] = field(default_factory=dict)
    """Of returns that were to keep tails, where a replay of the same export has begun since."""
    quarantines: dict[str, QuarantineRecord] = field(default_factory=dict)
    values: Mapping[bytes, bytes] = field(default_factory=dict)
    """All of it, by key."""
    hidden: Mapping[int, Mapping[bytes, bytes]] = field(default_factory=dict)
    """Producer → the values that its open transaction would add, from whomever."""

    @classmethod
    def of(cls, values: Mapping[bytes, bytes]) -> ReplayBook:
        """Read the newest values of the topic. Raises Malformed if one is not drkit's."""
        book = cls(values=values)
        for key, value in values.items():
            kind = key.partition(b"/")[0].decode(errors="replace")
            if kind == _PROGRESS:
                book.progress[key] = _read(ReplayProgress, key, value, lambda r: r.key)
            elif kind == _ROLLED_BACK:
                book.rolled_back[key] = _read(ReplayProgress, key, value, lambda r: r.rolled_back_key)
            elif kind == _QUARANTINE:
                quarantine = _read(QuarantineRecord, key, value, lambda r: r.key)
                book.quarantines[quarantine.topic] = quarantine
        return book

    def of_partition(self, at: TopicPartition) -> dict[bytes, ReplayProgress]:
        """Return the progress of all runs in a partition of the new primary."""
        return {key: run for key, run in (self.progress | self.rolled_back).items() if run.at == at}

    def flags(self, run: ReplayProgress) -> bytes:
        """Return the decision on a tail. Raises Malformed if a part of it is missing, or not drkit's."""
        return unpacked(run.run_id, run.at, run.records, self.values)


def _read(kind: type[B], key: bytes, value: bytes, key_of: Callable[[B], bytes]) -> B:
    try:
        record = kind.decode(value)
    except Malformed as error:
        raise Malformed(f"{key.decode(errors='replace')}: {error}") from None
    if (own := key_of(record)) != key:
        raise Malformed(f"{key.decode(errors='replace')}: it is the record of {own.decode()}")
    return record
