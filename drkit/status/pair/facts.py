"""The facts of each direction of a pair, from one look. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple, Self

from drkit.flow_state.copied_topics import written_of
from drkit.flow_state.records import (
    ConfigsRecord,
    EventRecord,
    FenceAclsRecord,
    FenceSizesRecord,
    HeldSettingsRecord,
    IncompleteRecord,
    LeaseRecord,
    PendingFence,
    RoleRecord,
    SourceSeenRecord,
)
from drkit.flow_state.state import FlowState
from drkit.flow_state.unreplayed import Unreplayed, unreplayed
from drkit.pair.promotions import never_noted, not_noted_since, promoted_of
from drkit.pair.view import FenceSeen, Observation
from drkit.status.pair.journal import JournalRuns, RunUnderWay
from drkit.topology.acls import Acl

_LEFT_OUT: Final = "topic_left_out"
FENCED_HERE: Final = frozenset({"acl", "max.message.bytes", "stopped", "debt"})
"""Fence methods of drkit or its hook; other fences are maintained by others."""


class TopicLag(NamedTuple):
    """The lag of a flow for a topic."""

    records: int | None
    seconds: float | None
    reason: str = ""
    """Reason for an unknown lag."""
    bytes: int | None = None
    ages: tuple[float | None, ...] = ()
    """By partition: the age in seconds of its oldest uncopied record, or None if unknown."""
    copy: str = ""
    """The name of the copy, whether or not it exists yet."""
    missing: int = 0
    """Number of offsets at the beginning that the target has deleted and the source may keep."""
    absent: int = 0
    """Number of partitions that the copy does not have yet: a failover refuses the topic."""

    def in_step(self, rpo_seconds: float) -> int:
        """Number of partitions whose oldest missing record is not older than that."""
        return sum(age is not None and age <= rpo_seconds for age in self.ages)


class LeftOutTopic(NamedTuple):
    """The newest event that a flow leaves a topic out."""

    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class DirectionFacts(Observation):
    """One direction of a pair, with the facts that determine its protection."""

    running: bool = False
    """Its lease is held, and was renewed in time."""
    left_out: Mapping[str, LeftOutTopic] = field(default_factory=dict)
    by_size: frozenset[str] = frozenset()
    """Source topics whose fence refuses drkit's records, too."""
    lags: Mapping[str, TopicLag] | None = None
    """None: not asked."""
    run: RunUnderWay | None = None
    runs_unknown: str = ""
    """Reason for an unreadable journal; empty if it was read or does not exist."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Source topic → a partition to whose copy another client wrote since a turn, with the offset."""
    fenced_by: Mapping[str, str] = field(default_factory=dict)
    """Run → result of its step FENCE."""
    opened_runs: frozenset[str] = frozenset()
    """Runs past OPEN by its journal."""
    incomplete: Mapping[str, IncompleteRecord] = field(default_factory=dict)
    """Source topic → the return that has emptied it and was rolled back."""
    held: Mapping[str, HeldSettingsRecord] = field(default_factory=dict)
    """Source topic → settings by which an operator keeps all records of its copy."""
    selects: Callable[[str], bool] = lambda _topic: True
    """Returns whether the flow is configured to copy a source topic."""
    compacted_alone: tuple[str, ...] = ()
    """Source topics without compaction whose copy is compacted."""
    not_noted: frozenset[str] = frozenset()
    """Source topics whose ends were not noted on the target since a turn."""
    never_noted: frozenset[str] = frozenset()
    """Source topics with partitions whose ends were not noted since they are copied."""
    source_noted_ms: tuple[int, ...] = ()
    """The times at which the source's ends were noted on the target, or none of them if that is unknown."""
    unreplayed: Mapping[str, tuple[Unreplayed, ...]] = field(default_factory=dict)
    """Source topic → decided replays of a return that were not carried out."""

    def not_begun(self) -> Iterator[tuple[str, str]]:
        """Yield the source topics that a running flow is to copy and has no copy of, with the copy's name."""
        for topic, lag in (self.lags or {}).items() if self.running else ():
            if lag.copy and topic not in self.copies and topic not in self.promoted and self.selects(topic):
                yield topic, lag.copy

    def lacks_history(self, topic: str) -> bool:
        """Return whether the copy of a source topic has removed records that the source may keep."""
        lag = (self.lags or {}).get(topic)
        return topic in self.compacted_alone or (lag is not None and lag.missing > 0)

    @classmethod
    def of(
        cls,
        own: Observation,
        state: FlowState,
        now_ms: int,
        *,
        runs: JournalRuns | str,
        lags: Mapping[str, TopicLag] | None = None,
        gone: frozenset[str] = frozenset(),
        passed_over: Callable[[str], bool] = lambda _topic: False,
        selects: Callable[[str], bool] = lambda _topic: True,
    ) -> Self:
        """Return the facts in a flow's state.

        :param own: its observation by :func:`drkit.pair.view.observation_of`
        :param runs: of its journal; or why it could not be read
        :param gone: source topics whose recorded fence the source does not have
        :param passed_over: returns whether a source topic is not written by clients
        :param selects: returns whether the flow is configured to copy a source topic; earlier copies count
            if one of both sides was promoted
        """
        journal, lease = runs if isinstance(runs, JournalRuns) else JournalRuns(), state.get(LeaseRecord)
        moved, noted = state.all(RoleRecord).keys() | own.returns, state.readable(SourceSeenRecord)
        copies = {t: c for t, c in own.copies.items() if not passed_over(t) and (selects(t) or t in moved)}
        own = replace(own, copies=copies, fences=_fences(state, gone))
        return cls(
            **{each.name: getattr(own, each.name) for each in fields(own)},
            running=bool(lease and lease.is_fresh(now_ms)),
            selects=selects,
            left_out=_left_out_topics(state),
            by_size=frozenset(sizes_of(state)),
            written={at.topic: f"{at} at offset {r.offset}" for at, r in written_of(state).items()},
            lags=lags,
            run=journal.current,
            runs_unknown=runs if isinstance(runs, str) else "",
            fenced_by=dict(journal.fences),
            opened_runs=journal.opened,
            incomplete=state.all(IncompleteRecord),
            held=state.all(HeldSettingsRecord),
            compacted_alone=compacted_alone(state),
            not_noted=not_noted_since(state),
            never_noted=never_noted(state, {t: len(lag.ages) for t, lag in (lags or {}).items()}),
            source_noted_ms=tuple(record.at_ms for record in noted.values()),
            unreplayed=_unreplayed(state),
        )


def _fences(state: FlowState, gone: frozenset[str]) -> dict[str, FenceSeen]:
    pending = state.get(PendingFence)
    fences = dict.fromkeys(fenced_topics(state), FenceSeen.STANDS) | dict.fromkeys(gone, FenceSeen.GONE)
    return fences | dict.fromkeys(pending.topics if pending is not None else (), FenceSeen.PENDING)


def _left_out_topics(state: FlowState) -> dict[str, LeftOutTopic]:
    events = (e for e in state.readable(EventRecord).values() if e.kind == _LEFT_OUT)
    return {e.topic: LeftOutTopic(e.at_ms, str(e.fields.get("reason", ""))) for e in events}


def _unreplayed(state: FlowState) -> dict[str, tuple[Unreplayed, ...]]:
    found: dict[str, tuple[Unreplayed, ...]] = {}
    for each in unreplayed(state):
        found[each.topic] = (*found.get(each.topic, ()), each)
    return found


def compacted_alone(state: FlowState) -> tuple[str, ...]:
    """Return the copied topics whose copy was compacted at the last comparison, and the source was not."""
    configs, promoted = state.readable(ConfigsRecord), promoted_of(state)
    return tuple(sorted(t for t, each in configs.items() if each.is_compacted_alone and t not in promoted))


def fenced_topics(state: FlowState) -> frozenset[str]:
    """Return the source topics with a recorded fence."""
    return frozenset(sizes_of(state)) | {acl.name for acl in acls_of(state)}


def sizes_of(state: FlowState) -> Mapping[str, str | None]:
    """Return the source topics that are fenced by size, by a flow's state."""
    sizes = state.get(FenceSizesRecord)
    return {} if sizes is None else sizes.topics


def acls_of(state: FlowState) -> frozenset[Acl]:
    """Return the ACLs that fence source topics, by a flow's state."""
    record = state.get(FenceAclsRecord)
    return frozenset() if record is None else record.acls
