"""A pair of clusters without brokers: two state topics, two journals, and what is true of them.

Records are those that drkit keeps, in :class:`FlowState`; decisions are made by the functions that drkit
decides by. A side that is down is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.records import (
    ClustersRecord,
    GenerationRecord,
    OffsetMapRecord,
    PromotionRecord,
    ReturnRecord,
    Role,
    RoleRecord,
)
from drkit.flow_state.state import FlowState
from drkit.pair.promotions import is_answered, term_of
from drkit.pair.view import (
    Observation,
    PairRoles,
    Refusing,
    TopicView,
    observation_of,
    pair_view,
    roles_in,
    untold,
)

TOPICS = ("t1", "t2")
IDS = UUID(int=1), UUID(int=2)
OTHER = {"p": "s", "s": "p"}
Rule = Callable[[Observation, Observation], Iterable[TopicView[Observation]]]


@dataclass
class Direction:
    """A flow: its state and journal are on its target."""

    source: str
    target: str
    state: FlowState = field(default_factory=FlowState)
    opened: dict[str, RoleRecord] = field(default_factory=dict)
    """By its journal."""
    term: int = 0
    """The newest one in its journal."""
    recorded: dict[str, RoleRecord] = field(default_factory=dict)
    """By the record of its fences, which is on its source."""

    def put(self, record: StateRecord, name: str = "") -> None:
        self.state.take(record.key(name).encode(), record.encode())

    def delete(self, kind: type[StateRecord], name: str = "") -> None:
        self.state.take(kind.key(name).encode(), None)

    def begins(self) -> None:
        """Begin the state, of a new flow or after a loss."""
        self.put(ClustersRecord(self.source, self.target))
        self.put(OffsetMapRecord(IDS[0]))


@dataclass
class PairModel:
    """The pair, what is true, and what a look finds."""

    rule: Rule = pair_view
    down: set[str] = field(default_factory=set)
    refuses: dict[str, set[str]] = field(default_factory=lambda: {"p": set(), "s": set(TOPICS)})
    """What is true: by side, the topics that clients cannot write to there."""
    fenced: dict[str, set[str]] = field(default_factory=lambda: {"p": set(), "s": set()})
    """By side, the topics that refuse every record, as a look at their settings shows."""
    flows: dict[str, Direction] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=lambda: dict.fromkeys(TOPICS, "p"))
    """What is true: by topic, the side that was opened last."""
    terms: list[int] = field(default_factory=list)
    """Of all runs, in their order."""
    known: list[bool] = field(default_factory=list)
    """Of each run: whether both sides answered."""
    lost: set[str] = field(default_factory=set)
    """Sides whose state topic was deleted at some time."""
    clock: int = 1

    def __post_init__(self) -> None:
        self.flows = {"p": Direction("p", "s"), "s": Direction("s", "p")}
        self.flows["p"].begins()
        self._copies(self.flows["p"], TOPICS)

    def _copies(self, flow: Direction, topics: Iterable[str]) -> None:
        for topic in topics:
            flow.put(GenerationRecord(topic, *IDS), topic)

    # -- what a look finds --------------------------------------------------------------------------

    def observed(self, source: str, *, settings: bool = True) -> Observation:
        flow = self.flows[source]
        aliases = flow.source, flow.target
        if flow.target in self.down:
            recorded = flow.recorded if source not in self.down else {}
            return Observation(
                *aliases, unread="it does not answer", silent=source in self.down, recorded=recorded
            )
        refusing = Refusing(frozenset(self.fenced[flow.target]) if settings else frozenset())
        return observation_of(aliases, flow.state, flow.opened, refusing=refusing)

    def views(self, source: str = "p") -> list[TopicView[Observation]]:
        return list(self.rule(self.observed(source), self.observed(OTHER[source])))

    def roles(self, source: str) -> PairRoles:
        return roles_in(self.views(source))

    def is_known(self) -> bool:
        """Return whether no side that answers has a state that is younger than its journal."""
        return not any(self.observed(side).is_younger for side in self.flows)

    # -- what people and drkit do -------------------------------------------------------------------

    def fail_over(self, source: str, topics: Iterable[str], *, planned: bool) -> list[str]:
        """Move topics from a source; returns those that a run opened: empty where it is refused."""
        flow, back = self.flows[source], self.flows[OTHER[source]]
        up, target = source not in self.down, flow.target
        if target in self.down or not self.is_known() or (planned and not up):
            return []
        roles = self.roles(source)
        copied = flow.state.all(GenerationRecord)
        scope = [t for t in topics if t in copied and t not in roles.opened]
        if not scope or (up and roles.away & {*scope}) or (planned and not self._is_passive(flow, scope)):
            return []
        run, term = self._begin(flow, both=up)
        role = RoleRecord(Role.PROMOTED, term, run, self.clock, planned=planned or None)
        if up:
            self._close(source, scope)
        if planned:
            flow.recorded |= dict.fromkeys(scope, role)
        for topic in scope:
            flow.put(role, topic)
            self.active[topic] = target
            self.refuses[target].discard(topic)
            self.fenced[target].discard(topic)
            back.recorded.pop(topic, None)
        flow.opened |= dict.fromkeys(scope, role)
        if {*topics} >= {*copied}:
            flow.put(PromotionRecord(term, run, self.clock))
        self.share()
        return scope

    def _is_passive(self, flow: Direction, topics: Iterable[str]) -> bool:
        """Return whether it copies all of some topics: a switchover waits for the copy."""
        roles = self.flows[flow.target].state.all(RoleRecord) if flow.source not in self.down else {}
        returns = flow.state.all(ReturnRecord)
        return all(t not in roles or is_answered(roles[t], returns.get(t)) for t in topics)

    def _begin(self, flow: Direction, *, both: bool) -> tuple[str, int]:
        opposite = self.flows[flow.target].term if both else 0
        flow.term = 1 + max(flow.term, term_of(flow.state), opposite)
        self.terms.append(flow.term)
        self.known.append(both)
        self.clock += 1
        return f"run-{len(self.terms)}", flow.term

    def _close(self, side: str, topics: Iterable[str]) -> None:
        self.refuses[side].update(topics)
        self.fenced[side].update(topics)

    def roll_back(self, source: str) -> None:
        """A switchover that is aborted before it opens."""
        if not self.down:
            self._begin(self.flows[source], both=True)

    def pay_fence(self, source: str) -> None:
        """Fence an old primary at the first contact."""
        if not self.down and self.is_known():
            flow, opened = self.flows[source], self.roles(source).opened
            self._close(source, opened)
            roles = flow.state.all(RoleRecord)
            flow.recorded |= {t: roles[t] for t in opened if t in roles}
            self.share()

    def come_back(self, source: str, topics: Iterable[str]) -> None:
        """A return: the old primary of these topics becomes the standby."""
        flow, back = self.flows[source], self.flows[OTHER[source]]
        if self.down or not self.is_known():
            return
        opened = self.roles(source).opened & {*topics}
        roles, returns = flow.state.all(RoleRecord), back.state.all(ReturnRecord)
        opened -= {t for t in opened if is_answered(roles[t], returns.get(t))}
        if not opened:
            return
        run, term = self._begin(flow, both=True)
        self.share()
        self._close(source, opened)
        back.begins()
        self._copies(back, opened)
        back.delete(PromotionRecord)
        for topic in opened:
            back.delete(RoleRecord, topic)
            back.put(ReturnRecord(roles[topic].run_id, run, self.clock, None, term), topic)
            self.fenced[source].discard(topic)  # drkit writes there; clients are kept off by other means
            flow.recorded.pop(topic, None)

    def delete_state(self, side: str, *, recreated: bool) -> None:
        """Delete the state topic on a side; with `recreated` a replicator creates it again."""
        flow = self.flows[OTHER[side]]
        if side not in self.down:
            flow.state = FlowState()
            self.lost.add(side)
            if recreated:
                flow.put(ClustersRecord(flow.source, flow.target))

    def share(self) -> None:
        """Record each side's promotions on the other one, as the end of a run and the first contact do."""
        if self.down or not self.is_known():
            return
        first, second = self.observed("p", settings=False), self.observed("s", settings=False)
        for ended, record in filter(None, map(untold, pair_view(first, second))):
            self.flows[ended.flow.source].put(record, ended.name)


def by_one_state(first: Observation, second: Observation) -> Iterable[TopicView[Observation]]:
    """Apply the earlier rule: each state topic is read as the present of the pair."""

    def alone(flow: Observation) -> Observation:
        promoted: Mapping[str, RoleRecord] = {} if flow.unread else flow.promoted
        return Observation(
            flow.source, flow.target, unread="" if flow.is_younger else flow.unread, silent=flow.silent,
            copies=flow.copies, promoted=promoted, returns=flow.returns,
        )  # fmt: skip

    return pair_view(alone(first), alone(second))
