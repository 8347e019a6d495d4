"""What is said of a pair of clusters: a state for each topic, and the worst of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of, total, utc

HALF: Final = 0.5
"""Share of the time, or of the size, from which the end of a delta is a fault."""
_SHOWN: Final = 3


class PairState(StrEnum):
    """Whether a second cluster gets what clients write."""

    PROTECTED = "protected"
    """A flow copies to the passive side, and is in step."""
    UNPROTECTED = "unprotected"
    """Nothing copies, or the copy is not in step."""
    DIVERGED = "diverged"
    """After an unplanned failover the old primary answers: what becomes of the records that only it has, or
    had when a return was rolled back, is not decided."""
    RETURNING = "returning"
    """After an unplanned failover the old primary is copied to, and is not in step: it is no failover target
    yet."""
    FAILING_OVER = "failing_over"
    """A failover, or a switchover, is under way."""
    FAILING_BACK = "failing_back"
    """A run is under way that brings clients back to the cluster that they left last."""
    UNKNOWN = "unknown"
    """A cluster that would say so does not answer."""


class PairAlarm(StrEnum):
    """What needs a person at once, whatever the protection is."""

    BOTH_OPEN = "both_open"
    """Clients may write on both sides."""
    BOTH_CLOSED = "both_closed"
    """Clients can write on neither side, and no run is under way."""
    INCOMPLETE = "incomplete"
    """The old primary was emptied in a return that was rolled back: the active side alone has the records."""
    UNREPLAYED = "unreplayed"
    """Records that a return was to append to the active side are in an export alone."""


STATES: Final = tuple(s.value for s in PairState)
EXPOSED: Final = frozenset({PairState.UNPROTECTED, PairState.DIVERGED, PairState.RETURNING})
"""States in which the active side may be the only one with some records."""
_WORST_FIRST: Final = (
    PairState.UNPROTECTED, PairState.DIVERGED, PairState.RETURNING, PairState.FAILING_OVER,
    PairState.FAILING_BACK, PairState.UNKNOWN, PairState.PROTECTED,
)  # fmt: skip


class DeltaBound(NamedTuple):
    """How long the active side keeps all records that clients wrote since the promotion."""

    until_ms: int | None = None
    """The earliest time at which one of them can be removed; None: no time limit is known."""
    by: str = ""
    """The setting of the topic that decides."""
    used: float = 0.0
    """Share of the time since the promotion, or of the size, that is used up; 1 and more: records may be
    gone."""
    size_used: float | None = None
    """Share of ``retention.bytes`` that they fill, about; None: the size is not limited."""
    unknown: str = ""
    """Why the bound is unknown; empty: it is known."""
    held_ms: int | None = None
    """Since when a person has the active side keep everything; None: no hold, or it was changed since."""

    @property
    def is_due(self) -> bool:
        """Return whether half of it is used up."""
        return self.used >= HALF


class AlarmReason(NamedTuple):
    """Why a topic has an alarm."""

    alarm: PairAlarm
    why: str


@dataclass(frozen=True, slots=True)
class PairTopic:
    """One topic of a pair."""

    topic: str
    """Its name on the flow's source."""
    copy: str
    """Its name on the flow's target."""
    state: PairState
    direction: str = ""
    """The flow that protects the topic or would protect it, or the flow whose run is under way."""
    active: str = ""
    """Alias of the cluster on which clients write; empty: unknown, or both."""
    why: str = ""
    since_ms: int | None = None
    """When the copy was promoted; None: clients never moved."""
    records: int | None = None
    """Lag of the protecting flow; None: unknown, or not asked for."""
    seconds: float | None = None
    alarms: tuple[AlarmReason, ...] = ()
    """The worst first, each once."""
    delta: DeltaBound | None = None
    """Set where nothing protects a promoted topic."""
    partitions: int | None = None
    """Of the protecting flow; None: not asked for."""
    in_step: int | None = None
    """Of `partitions`: those without a record that is older than the budget and not copied."""
    bytes: int | None = None
    """What the protecting flow has still to copy; None: unknown, or not asked for."""
    is_held: bool = False
    """Whether the failover or failback that is under way waits for a person."""
    lacks_history: bool = False
    """Whether the copy has removed records that the source may keep."""

    @property
    def alarm(self) -> PairAlarm | None:
        """The worst; None: it has none."""
        return self.alarms[0].alarm if self.alarms else None

    def why_of(self, alarm: PairAlarm) -> str:
        """Why it has an alarm; empty: it has not."""
        return next((reason.why for reason in self.alarms if reason.alarm is alarm), "")


class PairPart(NamedTuple):
    """Topics of a pair of which the same is said."""

    state: PairState
    direction: str
    why: str
    topics: tuple[PairTopic, ...]

    @property
    def records(self) -> int | None:
        """Their lag; None: of one of them it is unknown."""
        return total(t.records for t in self.topics)

    @property
    def bytes(self) -> int | None:
        """What is still to be copied to them; None: of one of them it is unknown."""
        return total(t.bytes for t in self.topics)

    @property
    def in_step(self) -> tuple[int, int]:
        """Of their partitions: those in step, and all."""
        return sum(t.in_step or 0 for t in self.topics), sum(t.partitions or 0 for t in self.topics)

    @property
    def since_ms(self) -> int | None:
        """The earliest promotion of one of them."""
        return min((t.since_ms for t in self.topics if t.since_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class PairStatus:
    """The state of a pair, as one of its flows sees it; from the other flow the same is seen."""

    clusters: tuple[str, str]
    """Aliases, sorted."""
    topics: tuple[PairTopic, ...] = ()
    why: str = ""
    """Why nothing is said of topics."""
    unread: tuple[str, ...] = field(default=())
    """What could not be read although its cluster answers, and why."""
    silent: Mapping[str, int | None] = field(default_factory=dict)
    """Cluster that does not answer → when the newest record of it was made, or None without one."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The clusters that do not answer, and what else could not be read, with the reasons."""
        lines = (f"{alias} does not answer: {_known(ms)}" for alias, ms in self.silent.items())
        return (*lines, *self.unread)

    @property
    def state(self) -> PairState:
        """The worst state of a topic; a pair without topics is unknown."""
        found = {t.state for t in self.topics}
        return next((s for s in _WORST_FIRST if s in found), PairState.UNKNOWN)

    @property
    def reason(self) -> str:
        """Return why its worst topics are in their state, or why nothing is known of topics."""
        worst = (f"{part.topics[0].topic}: {part.why}" for part in self.parts)
        return next(worst, self.why or "; ".join(self.unknown) or "it has no topics")

    @property
    def alarms(self) -> tuple[PairAlarm, ...]:
        """The alarms of all topics, the worst first."""
        found = {reason.alarm for t in self.topics for reason in t.alarms}
        return tuple(a for a in PairAlarm if a in found)

    @property
    def parts(self) -> tuple[PairPart, ...]:
        """Topics of which the same is said, together; the worst first."""
        by: dict[tuple[PairState, str, str, bool], list[PairTopic]] = {}
        for t in self.topics:
            # The sentence of PROTECTED has no time: home topics and those that returned are one line.
            is_undated = t.since_ms is None and t.state is not PairState.PROTECTED
            by.setdefault((t.state, t.direction, t.why, is_undated), []).append(t)
        parts = (PairPart(*key[:3], tuple(found)) for key, found in by.items())
        return tuple(sorted(parts, key=lambda p: (_WORST_FIRST.index(p.state), p.direction, p.why)))

    @property
    def since_ms(self) -> int | None:
        """The earliest promotion of a topic that nothing protects."""
        since = [t.since_ms for t in self.topics if t.state in EXPOSED]
        return min((s for s in since if s is not None), default=None)

    @property
    def soonest(self) -> PairTopic | None:
        """The topic whose delta ends first; None: no delta has a time limit."""
        found = [t for t in self.topics if t.delta is not None and t.delta.until_ms is not None]
        return min(found, key=lambda t: (t.delta.until_ms or 0) if t.delta else 0, default=None)

    @property
    def delta_used(self) -> float | None:
        """The largest used share of a delta's bound; None: there is no delta with a bound."""
        bounds = [t.delta for t in self.topics if t.delta is not None]
        used = [d.used for d in bounds if d.until_ms is not None or d.size_used is not None or d.used]
        return max(used, default=None)

    def with_alarm(self, alarm: PairAlarm) -> tuple[PairTopic, ...]:
        """The topics that have an alarm."""
        return tuple(t for t in self.topics if t.why_of(alarm))

    def count(self, state: PairState) -> int:
        """Number of topics in a state."""
        return sum(t.state is state for t in self.topics)

    def as_dict(self, *, details: bool = True) -> dict[str, Any]:
        """The pair as plain data.

        :param details: with every topic
        """
        soonest = self.soonest
        plain: dict[str, Any] = {
            "clusters": list(self.clusters),
            "state": self.state.value,
            "alarms": [a.value for a in self.alarms],
            "since_ms": self.since_ms,
            "delta_whole_until_ms": soonest.delta.until_ms if soonest and soonest.delta else None,
            "delta_whole_until_topic": soonest.topic if soonest else None,
            "delta_used": self.delta_used,
            "why": self.why,
            "unknown": list(self.unknown),
            "silent": [{"cluster": alias, "known_ms": ms} for alias, ms in self.silent.items()],
            "parts": [_part(p) for p in self.parts],
        }
        if details:
            plain["topics"] = [_topic(t) for t in self.topics]
        return plain


def _known(at_ms: int | None) -> str:
    return "it has never been noted" if at_ms is None else f"what is known of it was noted at {utc(at_ms)}"


def _part(part: PairPart) -> dict[str, Any]:
    return {
        "state": part.state.value, "direction": part.direction, "why": part.why,
        "topics": len(part.topics), "first_topics": some_of(part.topics), "lag_records": part.records,
        "lag_bytes": part.bytes, "partitions_in_step": part.in_step[0], "partitions": part.in_step[1],
        "since_ms": part.since_ms,
    }  # fmt: skip


def _topic(topic: PairTopic) -> dict[str, Any]:
    plain = asdict(topic)
    plain["alarms"] = [{"alarm": a.alarm.value, "why": a.why} for a in topic.alarms]
    plain["delta"] = None if topic.delta is None else topic.delta._asdict()
    return plain


def some_of(topics: Iterable[PairTopic]) -> str:
    """The first names of some topics, and how many more there are."""
    return first_of((t.topic for t in topics), _SHOWN)


def numbered(topics: Iterable[PairTopic]) -> str:
    """The number of some topics with their first names."""
    found = list(topics)
    return f"{counted(len(found), 'topic')} ({some_of(found)})"
