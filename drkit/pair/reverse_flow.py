"""The flow in the other direction: its records are not copied back, and it must know this flow's producers.

Two flows with the same topic names, X→Y and Y→X, copy a record forever unless each leaves out the batches
of the other, known by their producer ids. Ids are recorded before they are used, but the other flow may be
running already and may have read the record before. So each side first writes and then reads
(Dekker's algorithm):

- before it uses a new id, a flow records it, and then looks whether the opposite flow holds its lease;
- a starting flow takes its lease, and then reads the opposite flow's ids.

At least one sees the other. A flow that finds the other running waits until that one has written that its
tasks leave the id out. Only flows that the configuration names are trusted (decision 23).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar
from uuid import UUID

from drkit import observe
from drkit.clock import boottime, monotonic, wall_ms
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Failed, Refused
from drkit.flow_state.creation import note_clusters
from drkit.flow_state.names import source_of_state_topic, state_topic
from drkit.flow_state.processes import lives_here
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import (
    ClustersRecord,
    GenerationRecord,
    LeaseRecord,
    RoleRecord,
    SkipsRecord,
    StateRecord,
)
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import describe_topics, one_by_one, topic_names
from drkit.next_command import typed
from drkit.pair.promotions import held_settings, left_behind, refuse_replaced, waiting_topics, without_return


class UnnamedFlows:
    """Flows from this flow's target to its source that `opposite_flows` does not name.

    :param source: alias of the cluster where their states are
    """

    def __init__(self, source: str, flow: FlowSettings) -> None:
        self._source = source
        self._flow = flow
        self._states: dict[str, FlowState] = {}

    def see(self, name: str, state: FlowState) -> bool:
        """Add the state of such a flow; returns whether it is to be read again.

        If the configuration lists the opposite flows, this one is reported once, and then ignored.
        """
        if self._flow.naming == "prefix":
            return False  # with prefixed names nothing is copied back
        if self._flow.opposite_flows is None:
            self._states[name] = state
            return True
        observe.event(
            "opposite_flow_passed_over", level="warning", flow=self._flow.name, state_topic=name,
            hint=f"if it runs: opposite_flows = {_listed(self._flow.opposite_flows, name)}",
        )  # fmt: skip
        return False

    def keep(self, names: Iterable[str]) -> None:
        """Forget states that no longer exist."""
        existing = set(names)
        self._states = {name: state for name, state in self._states.items() if name in existing}

    def claims(self, topics: Mapping[str, UUID], own: FlowState) -> dict[str, DrkitError]:
        """Topics of the source that such a flow claims to write, or to have promoted, each with what to do.

        :param topics: name → id
        :param own: the state of this flow, with the returns that have begun
        """
        found: dict[str, DrkitError] = {}
        for name, state in self._states.items():
            waiting = without_return(state, own)
            for upstream, entry in state.readable(GenerationRecord).items():
                topic, role = entry.target, waiting.get(entry.target)
                promotion = role if isinstance(role, RoleRecord) else None
                # A promotion counts for a later topic of this name, too: the old primary's is what it was.
                is_claimed = topics.get(topic) == entry.target_id
                if is_claimed or (promotion is not None and topic in topics):
                    found[topic] = self._claimed(topic, name, upstream, promotion)
        return found

    def _claimed(self, topic: str, state: str, upstream: str, promotion: RoleRecord | None) -> Refused:
        promoted = f", promoted by the failover {promotion.run_id}" if promotion is not None else ""
        evidence = f"by that state topic it is the copy of {upstream} on {self._flow.target}{promoted}"
        where = f"topic {topic}, flow {self._flow.name}: {state} on {self._source}"
        return Refused("opposite_flow_unnamed", where=where, evidence=evidence, listed=_listed((), state))


def _listed(named: Iterable[str], state: str) -> str:
    return "[" + ", ".join(f'"{alias}"' for alias in (*named, source_of_state_topic(state))) + "]"


R = TypeVar("R", bound=StateRecord)
_PAUSE_SECONDS: Final = 0.1
_LOOK_AGAIN_SECONDS: Final = 1.0
_DECIDED_SECONDS: Final = 20.0
_SAY_AFTER_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 60.0
"""Seconds a starting flow waits for a running opposite one before it gives up this attempt."""


class NotAcknowledged(Failed):
    """A flow in the other direction runs and does not leave out what this flow would write."""


@dataclass
class OppositeFlows:
    """All configured flows from this flow's target to its source, whatever aliases they use.

    :param state: of this flow; the producers that it leaves out are written there
    :param writes_for_seconds: how long a task of this flow may write after its last sign of life
    """

    source: Cluster
    target: Cluster
    flow: FlowSettings
    state: StateTopic
    writes_for_seconds: float

    def __post_init__(self) -> None:
        self._clusters = ClustersRecord(self.source.cluster_id, self.target.cluster_id)
        self._others: dict[str, _Opposite] = {}
        self._strangers: set[str] = set()
        self._named = {state_topic(alias) for alias in self.flow.opposite_flows or ()}
        self._unnamed = UnnamedFlows(self.source.alias, self.flow)
        self._unanswered_since: float | None = None
        self._has_reported = False

    @property
    def ids(self) -> tuple[int, ...]:
        """All known producer ids that opposite flows ever used on this flow's source."""
        return tuple(sorted({i for other in self._others.values() for i in other.ids}))

    def unexplained(self, topics: Collection[str], *, both_ways: bool) -> dict[str, str]:
        """Return topics of the target whose records no flow in the other direction accounts for.

        They may be what such a flow copies from there. With prefixed names a copy has no other writer. A flow
        that is over, or lost its source, has left behind what it never copied: each side alone has its own.

        :param topics: of the target, new to this flow
        :param both_ways: this process runs such a flow, which may not be recorded yet
        :returns: topic → how to save its records, or an empty text if nothing is known about them
        """
        flow, states = self.flow, [other.state.records for other in self._others.values()]
        if flow.naming == "prefix" or not (both_ways or states):
            return dict.fromkeys(topics, "")
        sides = [(flow.source, flow.target)] if left_behind(self.state.records, flow) else []
        sides += [(flow.target, flow.source) for state in states if left_behind(state, flow)]
        if not sides:
            return {}
        copied = {name for state in states for name in state.readable(GenerationRecord)}
        return {topic: _to_save_uncopied(*sides[0], topic) for topic in topics if topic not in copied}

    def records(self, kind: type[R]) -> list[R]:
        """The records of this kind in the opposite flows' states, as far as they were read."""
        return [found for other in self._others.values() if (found := other.state.get(kind)) is not None]

    def claims(self, topics: Mapping[str, UUID]) -> dict[str, DrkitError]:
        """Topics of the source that are not to be copied because of flows in the other direction, and why.

        Unnamed flows claim to write them, or named ones have promoted them and no return has begun.

        :param topics: name → id
        """
        waiting = {name: error for name, error in self.promoted().items() if name in topics}
        return self._unnamed.claims(topics, self.state.records) | waiting

    def promoted(self) -> dict[str, DrkitError]:
        """Topics of the source that named flows have promoted and whose return has not begun, and why."""
        states = [other.state.records for other in self._others.values()]
        return waiting_topics(self.flow, states, self.state.records)

    def held(self) -> dict[str, Mapping[str, str]]:
        """Values of settings of the source's topics that are not their own: a hold has set them.

        :raises DrkitError: the source does not answer
        """
        for other in self._others.values():
            other.read()
        now, states = wall_ms(), [other.state.records for other in self._others.values()]
        return {topic: values for state in states for topic, values in held_settings(state, now).items()}

    def introduce(self) -> None:
        """Record the clusters of this flow; to be called before its lease is taken.

        :raises Refused: the source is another cluster, and what is on record of the old one is still needed
        """
        refuse_replaced(self.flow, self.state.records, self._clusters.source)
        note_clusters(self.state, self._clusters)

    def read_all(self) -> None:
        """Find the opposite flows and read what they have decided; this flow's lease must be held.

        :raises DrkitError: the source does not answer, or a transaction on a state topic stays open
        """
        self.find()
        self._read_decisions()

    def _read_decisions(self) -> None:
        for other in self._others.values():
            deadline = monotonic() + _DECIDED_SECONDS
            while not other.read():
                if monotonic() > deadline:
                    raise other.undecided()

    def find(self) -> None:
        """Look for new flows: all at once, and not again for flows known to be unrelated."""
        names = [name for name in topic_names(self.source) if source_of_state_topic(name) is not None]
        self._unnamed.keep(names)
        self._strangers.intersection_update(names)
        self._consider(names)

    def follow(self) -> None:
        """Read what the named flows have written since, including those that just began."""
        new = self._named - set(self._others) - self._strangers
        if new:
            self._consider(describe_topics(self.source, new))
        for other in self._others.values():
            other.read()

    def _consider(self, names: Iterable[str]) -> None:
        """Read the clusters that flows name in state topics that are not known yet."""
        unknown = [n for n in names if n not in self._others and n not in self._strangers]
        # One consumer reads all of them: a state topic reader for each takes seconds.
        read = partial(newest_values, verified=True)
        states, hidden = one_by_one(read, self.source, [n for n in unknown if n in self._named])
        # A flow that is not named can only keep topics from being copied, so its records need no MAC.
        more, hidden_too = one_by_one(
            newest_values, self.source, [n for n in unknown if n not in self._named]
        )
        states, hidden = {**states, **more}, {**hidden, **hidden_too}
        for name, error in hidden.items():
            if name in self._named or (not self._named and name == state_topic(self.flow.target)):
                raise error
            # Most likely another team's flow from a third cluster; by its name it is not the opposite one.
            self._strangers.add(name)
            observe.event("opposite_flow_unknown", level="warning", flow=self.flow.name, state_topic=name,
                          evidence=error.evidence, hint="allow drkit READ on that topic")  # fmt: skip
        for name, records in states.items():
            where = f"{name} on {self.source.alias}"
            state = FlowState.of(records, where, records.refused, records.passed_over)
            is_named = name in self._named
            said = state.get(ClustersRecord) if is_named else state.readable(ClustersRecord).get("")
            is_opposite = said == ClustersRecord(self._clusters.target, self._clusters.source)
            if is_opposite and is_named:
                self._others[name] = other = _Opposite(self.source, name)
                other.read()
            # A flow that has not named its clusters yet is read again.
            elif not (self._unnamed.see(name, state) if is_opposite else said is None):
                self._strangers.add(name)

    def declare(self, ids: tuple[int, ...]) -> None:
        """Record that every task of this flow leaves out these producers from now on."""
        record = SkipsRecord(tuple(sorted(ids)), int(self.writes_for_seconds * 1000))
        if self.state.get(SkipsRecord) != record:
            self.state.put(record)

    def allow(self, ids: tuple[int, ...]) -> bool:
        """Whether this flow may write with these recorded producers: no opposite flow will copy it back.

        With prefixed names no flow can copy it back, so the answer is always True.
        """
        if self.flow.naming == "prefix":
            return True
        waiting = [other for other in self._others.values() if not other.allows(ids)]
        if not waiting:
            self._unanswered_since, self._has_reported = None, False
            return True
        now = monotonic()
        self._unanswered_since = since = self._unanswered_since or now
        if now - since > _SAY_AFTER_SECONDS and not self._has_reported:
            self._has_reported = True
            observe.event("waiting_for_opposite_flow", level="warning", flow=self.flow.name,
                          opposite=waiting[0].state.name, hint=_HINT)  # fmt: skip
        return False

    def wait_until_allowed(
        self, ids: tuple[int, ...], pause: Callable[[float], bool], patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Wait, before any task of this flow runs, until the flow may write with these producers.

        :param pause: waits some seconds; True gives up, and the caller finds out why
        :raises NotAcknowledged: a running opposite flow does not answer in time
        """
        deadline, look_again = monotonic() + patience_seconds, 0.0
        while True:
            if monotonic() >= look_again:
                self.find()  # an opposite flow that starts later finds this one
                look_again = monotonic() + _LOOK_AGAIN_SECONDS
            self._read_decisions()
            self.declare(self.ids)  # both sides may be waiting for each other
            if self.allow(ids) or pause(_PAUSE_SECONDS):
                return
            if monotonic() > deadline:
                names = [other.state.name for other in self._others.values()]
                raise NotAcknowledged(
                    "reverse_flow_not_acknowledged",
                    where=f"{self.flow.name}: {', '.join(names)} on {self.source.alias}",
                    evidence=f"no acknowledgement in {patience_seconds:.0f} s for producer ids {list(ids)}",
                )

    def close(self) -> None:
        """Let go of the connections."""
        for other in self._others.values():
            other.close()

    def __enter__(self) -> Self:
        self.find()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _to_save_uncopied(old: str, new: str, topic: str) -> str:
    export = typed("drkit", "divergence", "export", "--flow", f"{old}->{new}")
    return (
        f"save them: {export} {typed('--topic', topic)} --to PLACE; drkit replay --from MANIFEST appends them"
        f" on {new}; then delete the topic on {old} to copy it from the start"
    )


_HINT: Final = (
    "see whether its configuration names this flow (opposite_flows) and what that run does, stop it (SIGTERM)"
    ' or set naming = "prefix" in one of the two flows'
)


class _Opposite:
    """One flow that writes to this flow's source, by its state topic there."""

    def __init__(self, source: Cluster, name: str) -> None:
        self._source = source
        self.state = StateTopic(source.settings, source_of_state_topic(name) or "")
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._whole = False

    @property
    def ids(self) -> tuple[int, ...]:
        """All producer ids it ever used."""
        return on_record(self.state.records)

    def read(self) -> bool:
        """Read on; returns False when a transaction hides what was written before this call."""
        self._whole = self.state.load_decided()
        lease = self.state.get(LeaseRecord)
        if lease != self._seen:
            self._seen, self._seen_at = lease, boottime()
        return self._whole

    def allows(self, ids: tuple[int, ...]) -> bool:
        """Whether it leaves out these producers, or does not run."""
        skips = self.state.get(SkipsRecord) or SkipsRecord((), 0)
        if set(ids) <= set(skips.ids):
            return True
        if not self._whole:
            return False
        if self._seen is None or lives_here(self._seen.holder) is False:
            return True
        # A holder that stopped renewing may still have tasks that write, until their own deadline.
        silence_ms = max(self._seen.ttl_ms, skips.writes_for_ms)
        return boottime() - self._seen_at > silence_ms / 1000

    def undecided(self) -> Failed:
        """The error that its state cannot be read to the end."""
        return Failed(
            "reverse_state_unreadable",
            where=f"{self.state.name} on {self._source.alias}",
            evidence=f"stuck at offset {self.state.position}: an open transaction",
        )

    def close(self) -> None:
        """Let go of the connections."""
        self.state.close()
