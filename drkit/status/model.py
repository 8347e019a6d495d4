"""The state of a flow at one moment: the model of `drkit status`, of the page and of the metrics. Pure.

All facts come from the two clusters, so any machine can report them. For a silent source, its last known ends
count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.status.groups import GroupsSeen, group_faults
from drkit.status.lag.hanging import HANGING, OpenTransaction, fault_text, hanging
from drkit.status.lag.source import NOTHING_HELD, HeldBack
from drkit.status.runners import Runner as Runner
from drkit.status.runners import StandbyStatus

BEATS_SECONDS: Final = 10.0
BEATS_INTERVALS: Final = 5
"""A heartbeat older than both of these is a fault."""
SHOWN_EVENTS: Final = 10
OPEN_SECONDS: Final = 60.0
"""A transaction that is open for longer is a fault, unless the flow sets another limit."""


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
    fence_debt: PendingFence | None = None
    """The pending fence of the source: until it is applied the source may accept writes."""
    pending_lift: PendingLift | None = None
    """The fence left by a failover that was rolled back while the source was silent: it refuses producers."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    """Transactions that hold records back, on either cluster."""
    left_out_producers: tuple[int, ...] = ()
    """Producer ids of opposite flows: their records are not copied back."""
    standbys: tuple[StandbyStatus, ...] = ()
    """Processes that wait to take over."""

    @property
    def health(self) -> str:
        """``ok`` or ``fault``."""
        return "fault" if self.faults else "ok"

    @property
    def loss_now(self) -> Loss | None:
        """The loss if the primary dies now; None once a failover has taken its role."""
        return None if self.role == "promoted" else self.loss

    @property
    def map_segments(self) -> int | None:
        """Segments of the offset map over all partitions; None: the target does not answer."""
        return sum(p.segments for p in self.partitions) if self.target_answers else None

    def as_dict(self, *, details: bool = True) -> dict[str, Any]:
        """The status as plain data.

        :param details: with every partition, of topics and of groups
        """
        whole = self if details else replace(self, partitions=())
        told = {"health": self.health, **asdict(replace(whole, groups=None))}
        told |= {"faults": [f._asdict() for f in self.faults], "map_segments": self.map_segments}
        told["loss"] = None if self.loss_now is None else asdict(self.loss_now)
        seen = self.groups
        told["checkpoints"] = None if seen is None else seen.as_dict()
        told["groups"] = None if seen is None else [g.as_dict(details=details) for g in seen.groups]
        return told


@dataclass(slots=True)
class Findings:
    """Raw result of one look."""

    at_ms: int
    flow: str = ""
    source_error: str = ""
    target_error: str = ""
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
    source_seen_ms: int | None = None
    open_transactions: tuple[OpenTransaction, ...] = ()
    left_out_producers: tuple[int, ...] = ()
    groups: GroupsSeen | None = None
    """Set when groups are read; None: they were not read."""
    events: tuple[dict[str, Any], ...] = ()


def oldest_of(values: list[float | None]) -> float | None:
    """The largest age; None where one is unknown, 0 without values."""
    known = [v for v in values if v is not None]
    return max(known, default=0.0) if len(known) == len(values) else None


def faults_of(
    found: Findings,
    loss: Loss,
    *,
    rpo_seconds: float,
    interval_seconds: float,
    open_seconds: float = OPEN_SECONDS,
) -> list[Fault]:
    """The faults of a flow, the worst first.

    :param rpo_seconds: the loss that is acceptable
    :param interval_seconds: between two heartbeats
    :param open_seconds: how long a transaction may be open
    """
    if found.target_error:
        return [Fault("target_unreachable", f"the target does not answer: {found.target_error}")]
    faults = []
    if found.source_error:
        faults.append(Fault("source_unreachable", f"the source does not answer: {found.source_error}"))
    faults += _fence_faults(found)
    if found.runner is None:
        faults.append(Fault("not_running", "no run holds the flow's lease: nothing is copied"))
    elif not found.runner.alive:
        text = f"the lease of {found.runner.host} was renewed {found.runner.renewed_seconds:.0f} s ago"
        faults.append(Fault("not_running", f"{text}: nothing is copied"))
    faults += _beat_faults(found, interval_seconds)
    if loss.seconds is not None and loss.seconds > rpo_seconds:
        text = f"the oldest record not copied is {loss.seconds:.1f} s old, rpo_seconds = {rpo_seconds:g}"
        faults.append(Fault("rpo_exceeded", text))
    if late := hanging(found.open_transactions, open_seconds):
        faults.append(Fault(HANGING, fault_text(late, open_seconds)))
    unknown = [p for p in found.partitions if p.records is None and p.topic not in found.promoted]
    if unknown and not found.source_error:
        first = unknown[0]
        some = counted(len(unknown), "partition")
        text = f"the lag of {some} is not known, of {first.topic}-{first.partition}"
        faults.append(Fault("lag_unknown", f"{text}: {first.reason or 'no answer'}"))
    if found.left_out:
        text = f"of the source are not copied: {first_of(found.left_out, 3)}"
        faults.append(Fault("topics_left_out", text))
    return faults + [Fault(*f) for f in (group_faults(found.groups) if found.groups else ())]


def _fence_faults(found: Findings) -> Iterator[Fault]:
    when = "once it answers" if found.source_error else "it answers, so now"
    then = f"{when}: {paid_with(found.flow)}"
    if (pending := found.pending_fence) is not None:
        yield Fault("fence_owed", f"the source was never fenced, pending {pending.owed_by}; {then}")
    if found.lift is not None:
        yield Fault("fence_lift_pending", f"the source refuses producers: {found.lift.in_words}; {then}")


def _beat_faults(found: Findings, interval_seconds: float) -> list[Fault]:
    if not found.beats_expected:
        return []
    if found.heartbeat_ahead_seconds:
        text = (
            f"the last heartbeat is {found.heartbeat_ahead_seconds:,.0f} s ahead of this machine's clock, and"
            " does not count: set the clocks right, or find who wrote it"
        )
        return [Fault("heartbeat_ahead", text)]
    if found.heartbeat is None:
        return [Fault("heartbeat_missing", "no heartbeat of this flow ever reached the target")]
    limit = max(BEATS_SECONDS, BEATS_INTERVALS * interval_seconds)
    if found.heartbeat.age_seconds <= limit:
        return []
    text = f"the newest heartbeat is {found.heartbeat.age_seconds:.1f} s old, more than {limit:g} s"
    return [Fault("heartbeat_stale", text)]


def role_of(found: Findings) -> str:
    """What the flow is doing."""
    if found.target_error:
        return "unknown"
    if found.taken_over:
        return "promoted"  # the lease holder, if any, copies nothing any more
    if found.runner is not None and found.runner.alive:
        return "replicating"
    return "stopped"
