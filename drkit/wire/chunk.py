"""What :func:`drkit.wire.transform` makes of a fetch answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from drkit.wire.header import COUNT_AT, LAST_OFFSET_DELTA_AT, CorruptBatch

_INT: Final = Struct(">i")


class OffsetRun(NamedTuple):
    """``count`` records of a chunk that have the contiguous source offsets from ``source`` on."""

    source: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not called on a run


class Whole(NamedTuple):
    """The unpacked records of a batch without holes; all of them are copied."""

    base_offset: int
    base_time: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not called on a batch
    data: bytes


class How(Enum):
    """Processing of a source batch."""

    FORWARDED = "forwarded"
    """Only header fields changed."""
    SLICED = "sliced"
    """Rebuilt from the part inside the wanted range."""
    RENUMBERED = "renumbered"
    """Rebuilt without the holes that compaction left."""
    REBUILT = "rebuilt"
    """Rebuilt with other times (LogAppendTime) or split because of its size."""
    MERGED = "merged"
    """Made of several small batches."""


class DropReason(Enum):
    """Reasons for source offsets without a counterpart on the target."""

    CONTROL = "control"
    """A transaction marker."""
    ABORTED = "aborted"
    """Records of an aborted transaction."""
    EMPTY = "empty"
    """Compaction removed every record of the batch."""
    LOOP = "loop"
    """Written by the replication of the other direction."""
    BEFORE_POSITION = "before_position"
    """The fetch answer began before the wanted position."""


class Returned(NamedTuple):
    """A batch of the replication of the other direction where none can be."""

    offset: int
    """The first of its offsets that was wanted."""
    producer_id: int


class Drop(NamedTuple):
    """Source offsets from ``start`` up to but without ``end`` that were left out."""

    start: int
    end: int
    reason: DropReason


@dataclass(slots=True)
class Chunk:
    """One batch for the target, complete but for the producer fields (:func:`drkit.wire.stamp`)."""

    data: bytearray
    """A batch of format 2: base offset 0, leader epoch -1, CRC not yet valid."""
    runs: tuple[OffsetRun, ...]
    """The source offsets of its records, in order."""
    count: int
    """Records: also the offsets and the sequence numbers it takes."""
    max_timestamp: int
    """Milliseconds since 1970."""
    next_source: int
    """Source offset after its last record."""
    leader_epoch: int
    """Source leader epoch of the last batch it was made of."""
    how: How

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.data)

    @property
    def copied_end(self) -> int:
        """Source offset after its last copied record; markers may follow."""
        return self.runs[-1].source + self.runs[-1].count


def check_sound(chunk: Chunk) -> None:
    """Check a chunk before it leaves ``transform``: counts, offsets and runs must agree.

    A broker refuses a batch whose count is not its last offset delta + 1, and the offset map trusts the runs.
    Raises CorruptBatch.
    """
    (last_offset_delta,) = _INT.unpack_from(chunk.data, LAST_OFFSET_DELTA_AT)
    (count,) = _INT.unpack_from(chunk.data, COUNT_AT)
    if not last_offset_delta + 1 == count == chunk.count == sum([run.count for run in chunk.runs]):
        reason = f"{count} records, last offset delta {last_offset_delta}, runs {chunk.runs}"
        raise CorruptBatch(chunk.runs[0].source, f"the chunk made of it contradicts itself: {reason}")


@dataclass(slots=True)
class Transformed:
    """A fetch answer, ready to append."""

    chunks: list[Chunk] = field(default_factory=list)
    """In source order."""
    drops: list[Drop] = field(default_factory=list)
    """In source order; adjoining ones of one reason are joined."""
    looped: dict[int, int] = field(default_factory=dict)
    """Producer → records of its that were dropped as :attr:`DropReason.LOOP`."""
    returned: Returned | None = None
    """Here the contents end: neither this batch nor what follows it was taken."""
    next_source: int = 0
    """Where to fetch next, also when everything was dropped."""
    leader_epoch: int = -1
    """Source leader epoch of the last batch seen, -1 without one."""

    def drop(self, start: int, end: int, reason: DropReason) -> None:
        """Note that ``start`` … ``end``-1 are left out."""
        if self.drops:
            last = self.drops[-1]
            if last.reason is reason and last.end == start:
                self.drops[-1] = Drop(last.start, end, reason)
                return
        self.drops.append(Drop(start, end, reason))
