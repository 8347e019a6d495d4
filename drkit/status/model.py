"""The state of a flow at one moment: the model of `drkit status`, of the page and of the metrics. Pure.

All facts come from the two clusters, so any machine can report them. For a silent source, its last known ends
count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from drkit.flow_state.records import PendingFence, PendingLift
from drkit.status.groups import GroupsSeen
from drkit.status.lag.held_back import OpenTransaction
from drkit.status.lag.source import NOTHING_HELD, HeldBack
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.model import PairStatus
from drkit.status.pair.text import pair_lines
from drkit.status.runners import Runner as Runner
from drkit.status.runners import StandbyStatus

SHOWN_EVENTS: Final = 10


class Fault(NamedTuple):
    """Why a flow is not healthy. Each kind has a fixed code, see docs/reference/status.md."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. Offsets of the source are None while unknown."""

    topic: str
    target_topic: str
    partition: int
    frontier: int | None
    """First source offset that is not on the target; None: unknown, `reason` says why."""
    source_end: int | None
    """Last stable offset of the source, or the last that was seen there."""
    target_end: int | None
    records: int | None
    """Below the last stable offset and not yet copied: what replication could copy now."""
    bytes: int | None
    seconds: float | None
    """Age of the oldest of these; 0 without one."""
    exact: bool = True
    """False: records and bytes are estimates or upper bounds."""
    segments: int = 0
    reason: str = ""
    high_watermark: int | None = None
    """Of the source, or the last that was seen there."""
    held_back: HeldBack = NOTHING_HELD
    """Above the last stable offset: not copied until an open transaction is decided."""
    held_back_seconds: float | None = 0.0
    """Age of the oldest acknowledged record that is held back; 0 without one, None: unknown."""
    missing: int = 0
    """Offsets at the beginning whose records the source may keep, and the target has removed."""
    dropped: int = 0
    """Offsets at the end of the copy that were copied, and that the target has lost."""

    @property
    def is_unknown(self) -> bool:
        """Return whether its lag is unknown, or the age of it, unless too many partitions wait to read it."""
        return self.records is None or (self.records > 0 and self.seconds is None and bool(self.reason))

    @property
    def gone(self) -> int:
        """Offsets that were copied and are not on the target: how old the records are is unknown."""
        return self.missing + self.dropped

    @property
    def missing_in_words(self) -> str:
        """Their number, and the reason where it is unknown which of them the source keeps."""
        unclear = f" ({self.reason})" if self.reason else ""
        return f"{self.topic}-{self.partition}: {self.missing:,}{unclear}"

    @property
    def at_risk(self) -> int | None:
        """Upper bound on the records that a failover now would lose."""
        return None if self.records is None else self.records + self.held_back.records

    @property
    def risk_seconds(self) -> float | None:
        """Age of the oldest record that a failover now would lose."""
        return oldest_of([self.seconds, self.held_back_seconds])


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The sum over a topic's partitions; None where a partition is unknown."""

    topic: str
    target_topic: str
    partitions: int
    records: int | None
    bytes: int | None
    seconds: float | None
    exact: bool
    unknown_partitions: int = 0
    reason: str = ""
    held_back: int = 0
    """Upper bound on the records that open transactions hold back; not among `records`."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What would be lost if the primary died now (RPO)."""

    records: int | None
    bytes: int | None
    seconds: float | None
    """Age of the oldest record that would be lost."""
    exact: bool
    source_seen_seconds: float | None
    """Age of the source's ends: 0 when it answered; None when its ends were never recorded.
    Records produced later are not counted."""
    held_back: int = 0
    """Among `records`: upper bound on what open transactions on the source hold back."""
    acknowledged: int = 0
    """Of `held_back`: upper bound on records not known to belong to an undecided transaction."""


@dataclass(frozen=True, slots=True)
class HeartbeatStatus:
    """The newest heartbeat of this flow on the target."""

    age_seconds: float
    """Normally between the true delay of the whole path and that plus one interval."""
    delay_seconds: float | None = None
    """From its creation until it was readable on the target; None when its arrival was not observed."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow at one moment."""

    flow: str
    source: str
    target: str
    at_ms: int
    role: str
    """``replicating``, ``stopped``, ``promoted`` or ``unknown``."""
    faults: tuple[Fault, ...]
    loss: Loss
    heartbeat: HeartbeatStatus | None
    runner: Runner | None
    topics: tuple[TopicStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    promoted_topics: tuple[str, ...] = ()
    groups: GroupsSeen | None = None
    """None: not read, because the flow synchronizes no groups, or has only begun."""
    events: tuple[dict[str, Any], ...] = ()
    source_answers: bool = True
    target_answers: bool = True
    term: int = 0
    """Generation of the role: grows by one at each failover of this flow or of a part of it."""
    pending_fence: PendingFence | None = None
    """The pending fence of the source: until it is applied the source may accept writes."""
    pending_lift: PendingLift | None = None
    """The fence left by a failover that was rolled back while the source was silent: it refuses producers."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    """Transactions that hold records back, on either cluster."""
    left_out_producers: tuple[int, ...] = ()
    """Producer ids of opposite flows: their records are not copied back."""
    standbys: tuple[StandbyStatus, ...] = ()
    """Processes that wait to take over."""
    copied_ms: int | None = None
    """All older was copied at this look; of a silent source, when its ends were noted; None: unknown."""
    returned_topics: tuple[str, ...] = ()
    """Source topics that are copied since a return, and that no failover has promoted since."""
    not_noted_topics: tuple[str, ...] = ()
    """Those of them whose ends the replicator has not noted on the target since."""
    unanswered: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Topics → partitions whose ends the source, which answered, did not return."""
    pair: PairStatus | None = None
    """The pair of this flow and the one in the other direction; None: not looked at."""
    run: RunUnderWay | None = None
    """The run in this flow's journal that is under way, or None, also if the journal is unknown."""

    @property
    def health(self) -> str:
        """``ok`` or ``fault``."""
        return "fault" if self.faults else "ok"

    @property
    def loss_now(self) -> Loss | None:
        """The loss if the primary dies now; None once a failover has taken its role.

        A silent source may have accepted records since they were counted. So records and bytes are None
        instead of 0 then, and `seconds` is the time since everything was copied, or None if that is unknown.
        """
        loss = self.loss
        if self.role == "promoted":
            return None
        if not loss.source_seen_seconds:
            return loss
        seconds = None if self.copied_ms is None else max(0, self.at_ms - self.copied_ms) / 1000
        return replace(loss, records=loss.records or None, bytes=loss.bytes or None, seconds=seconds)

    def after(self, seconds: float) -> FlowStatus:
        """Return the status as of some seconds after the look: every age in it grows."""
        loss, beat, groups = self.loss, self.heartbeat, self.groups
        gone = seconds if loss.source_seen_seconds else 0.0
        if loss.source_seen_seconds:
            loss = replace(loss, source_seen_seconds=loss.source_seen_seconds + seconds)
        if beat is not None:
            beat = replace(beat, age_seconds=beat.age_seconds + seconds)
        if groups is not None and (age := groups.rounds.age_seconds) is not None:
            gone += groups.rounds.source_gone_seconds
            rounds = replace(groups.rounds, age_seconds=age + seconds, source_gone_seconds=gone)
            groups = replace(groups, rounds=rounds)
        now_ms = self.at_ms + round(seconds * 1000)
        return replace(self, at_ms=now_ms, loss=loss, heartbeat=beat, groups=groups)

    @property
    def map_segments(self) -> int | None:
        """Segments of the offset map over all partitions; None: the target does not answer."""
        return sum(p.segments for p in self.partitions) if self.target_answers else None

    def as_dict(self, *, details: bool = True) -> dict[str, Any]:
        """The status as plain data.

        :param details: with every partition, of topics and of groups
        """
        whole = self if details else replace(self, partitions=())
        told = {"health": self.health, **asdict(replace(whole, groups=None, pair=None, run=None))}
        del told["run"]  # it is in the pair
        told |= {"faults": [f._asdict() for f in self.faults], "map_segments": self.map_segments}
        told["loss"] = None if self.loss_now is None else asdict(self.loss_now)
        told["pair"] = None
        if self.pair is not None:
            lines = [f"{line.word} {line.text}" for line in pair_lines(self.pair)]
            told["pair"] = {"lines": lines, **self.pair.as_dict(details=details)}
        seen = self.groups
        told["checkpoints"] = None if seen is None else seen.as_dict()
        told["groups"] = None if seen is None else [g.as_dict(details=details) for g in seen.groups]
        return told


@dataclass(slots=True)
class Findings:
    """Raw result of one look."""

    at_ms: int
    """When the look began."""
    read_ms: int
    """When the records were read that wait: they may be younger than the look."""
    flow: str = ""
    source_error: str = ""
    target_error: str = ""
    unread: Fault | None = None
    """Why the state of a target that answers cannot be read; then `target_error` is set, too."""
    partitions: list[PartitionStatus] = field(default_factory=list)
    heartbeat: HeartbeatStatus | None = None
    heartbeat_ahead_seconds: float = 0.0
    """How far the last heartbeat is ahead of this machine's clock, if too far to count."""
    beats_expected: bool = True
    runner: Runner | None = None
    standbys: tuple[StandbyStatus, ...] = ()
    promoted: tuple[str, ...] = ()
    taken_over: bool = False
    """Failovers promoted the whole flow, at once or part by part."""
    pending_fence: PendingFence | None = None
    lift: PendingLift | None = None
    term: int = 0
    left_out: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()
    """Changes of topic settings that the copies do not follow yet, in words."""
    compacted_alone: tuple[str, ...] = ()
    """Topics whose copy is compacted, and that are not on the source."""
    written: tuple[str, ...] = ()
    """Partitions of the target to which another client wrote since a turn, and where."""
    source_seen_ms: int | None = None
    noted_copied_ms: int | None = None
    """Of a silent source: everything older was copied at its last answer; None: not known."""
    returned: tuple[str, ...] = ()
    """Source topics that are copied since a return, and that no failover has promoted since."""
    not_noted: tuple[str, ...] = ()
    """Those of them whose ends the replicator has not noted on the target since."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    left_out_producers: tuple[int, ...] = ()
    groups: GroupsSeen | None = None
    """Set when groups are read; None: they were not read."""
    events: tuple[dict[str, Any], ...] = ()


def oldest_of(values: list[float | None]) -> float | None:
    """The largest age; None where one is unknown, 0 without values."""
    known = [v for v in values if v is not None]
    return max(known, default=0.0) if len(known) == len(values) else None


def role_of(found: Findings) -> str:
    """What the flow is doing."""
    if found.target_error:
        return "unknown"
    if found.taken_over:
        return "promoted"  # the lease holder, if any, copies nothing any more
    if found.runner is not None and found.runner.alive:
        return "replicating"
    return "stopped"
