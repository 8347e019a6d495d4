"""The position of a partition, and the state of the target's log that proves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from drkit.offsets.history import Piece
from drkit.offsets.map_record import History
from drkit.offsets.segments import SegmentMap


class LogBatch(NamedTuple):
    """The header of one batch in the target's log."""

    base: int
    records: int
    """Offsets it takes (last offset delta + 1)."""
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    aborted: bool

    @property
    def end(self) -> int:
        """Target offset after it."""
        return self.base + self.records


class Foreign(NamedTuple):
    """A batch on the target that this flow did not write."""

    base: int
    records: int
    producer_id: int
    transactional: bool = False
    """In a transaction; one that was not aborted when the log was read."""
    epoch: int = -1
    """Of the producer, if it was read."""


class NeedLog(NamedTuple):
    """The claims cannot be settled without the target's batch headers from `start` on."""

    start: int


@dataclass(slots=True)
class Resolution:
    """Where a partition is."""

    segments: SegmentMap
    history: History | None
    """In which the records before `sequence` were appended; None: none ever was."""
    upstream: int | None
    """Next source offset to copy; None: nothing was ever copied."""
    downstream: int
    """The target's end: the offset of the next record."""
    copied_end: int
    """Target offset after the last record of this flow."""
    sequence: int
    leader_epoch: int
    """Of the source at the last record copied, or a later one. With an older one the source would say that
    its history ended there, and all after it would be copied again (KIP-320)."""
    repairs: list[Piece] = field(default_factory=list)
    """Confirmed only by this look at the log: to be written down before the next append."""
    foreign: list[Foreign] = field(default_factory=list)
    truncated_from: int | None = None
    """The target once reached to here, and its log does not hold that any more."""
    repair_from: int = 0
    """Target offset after the last record before the first repair; NO_ANCHOR: retention removed some."""
    passed: bool = False
    """Retention has removed what was appended last: the leader's number alone says that it was."""
    first_foreign: bool = False
    """The target held records before the first copied one."""
    unmapped: list[Foreign] = field(default_factory=list)
    """Visible batches of this flow that no map record describes."""
    anchored: bool = True
    """The record before `sequence` is the one that ends at `copied_end`."""
    live: bool = False
    """The last record of this flow was appended in live mode, in `history`."""
    unappended: bool = False
    """Claims speak of records that the log does not hold: another task may still append them."""

    @classmethod
    def of_nothing(cls, end: int, copied_end: int, sequence: int = 0) -> Resolution:
        """Return that of a partition into which nothing was ever copied."""
        return cls(SegmentMap(), None, None, end, copied_end, sequence, leader_epoch=-1)


@dataclass(frozen=True, slots=True)
class LogLook:
    """What the leader of a target partition said at one moment."""

    end: int
    """End of its log; everything before it is replicated and visible."""
    next_sequence: int | None
    """Last sequence of the current history + 1 (DescribeProducers, KIP-664); None: the leader has forgotten
    it, or knows a newer epoch."""
    own_ids: frozenset[int]
    """Live producer ids of the flow, for maps of format 1, whose marks name no history."""
    bulk_ids: frozenset[int] = frozenset()
    """Producer ids of the flow's transactions; empty: unknown, every transaction may be one of them."""
    start: int = 0
    """First offset left in its log, as far as it was asked."""
    same_leader: bool = False
    """Its leader epoch is that of the tail: nothing can have been truncated since."""
    began_at: int | None = None
    """Source offset at which the flow began to copy after a turn. The target's records from before are those
    of clients, or of the flow in the other direction: their producers say nothing."""
