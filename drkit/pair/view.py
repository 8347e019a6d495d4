"""One view of a pair of clusters, from observations of both directions, topic by topic. Pure.

A topic has one name on each cluster. The newest promotion decides where clients write, whichever side has it
on record: a role of a silent side may be over. The result does not depend on the direction that comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from drkit.flow_state.records import GenerationRecord, OppositePromotionRecord, ReturnRecord, Role, RoleRecord
from drkit.flow_state.source_fence.entries import FenceLog, FenceMark
from drkit.flow_state.state import FlowState
from drkit.pair.promotions import is_answered, topic_terms


class FenceSeen(Enum):
    """The fence of a flow for a topic of its source."""

    NONE = auto()
    """No fence is on record."""
    PENDING = auto()
    """A failover could not fence, and it was not done since."""
    STANDS = auto()
    """On record, and not known to be missing on the source."""
    GONE = auto()
    """On record, but the source does not have it."""


class Refusing(NamedTuple):
    """Topics of a cluster that refuse every client."""

    topics: frozenset[str] = frozenset()
    unknown: str = ""
    """The reason why others may refuse clients, too; empty if all is known, or the cluster was not asked."""


NOT_ASKED: Final = Refusing()


@dataclass(frozen=True, slots=True)
class Observation:
    """One direction, as a look found it: state and journal are on its target, fences on its source."""

    source: str
    target: str
    configured: bool = True
    unread: str = ""
    """The reason why its state is unknown: its cluster is silent or was not asked, it is damaged, or it is
    younger than its journal. Empty if it was read, or the flow never ran."""
    is_younger: bool = False
    """The state is younger than its journal, which `promoted` is rebuilt from."""
    silent: bool = False
    """Its source does not answer."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Source topic → its copy."""
    promoted: Mapping[str, RoleRecord] = field(default_factory=dict)
    """By source topic, by this direction's own records."""
    returns: Mapping[str, ReturnRecord] = field(default_factory=dict)
    opposite: Mapping[str, OppositePromotionRecord] = field(default_factory=dict)
    """By source topic: the promotions in the other direction that its target has on record."""
    fences: Mapping[str, FenceSeen] = field(default_factory=dict)
    """By source topic; a topic that is missing has none on record."""
    recorded: Mapping[str, RoleRecord] = field(default_factory=dict)
    """By source topic: the promotion that is on record on the source, with its fence, of an unread flow."""
    refusing: Refusing = NOT_ASKED
    """Of the target, if it was asked."""

    @property
    def name(self) -> str:
        """The flow's name."""
        return f"{self.source}->{self.target}"

    def not_begun(self) -> Iterable[tuple[str, str]]:
        """Return the source topics that are to be copied and have no copy yet, with the copy's name."""
        return ()


D = TypeVar("D", bound=Observation)


class OneWay(NamedTuple, Generic[D]):
    """A direction of the pair, and a topic's names and promotion in it."""

    flow: D
    name: str
    """On the source of this direction."""
    copy: str
    """On its target."""
    role: RoleRecord | None
    """The newest promotion in this direction that any side knows of, or None."""

    @property
    def fence(self) -> FenceSeen:
        """The fence for the topic on the source of this direction."""
        return self.flow.fences.get(self.name, FenceSeen.NONE)

    @property
    def copies(self) -> bool:
        """True if this direction ever copied the topic."""
        return self.flow.copies.get(self.name) == self.copy

    def answers(self, promotion: RoleRecord) -> bool:
        """Return whether it copies since a return that followed this promotion in the other direction."""
        return is_answered(promotion, self.flow.returns.get(self.name))

    def is_ended_by(self, promotion: RoleRecord) -> bool:
        """Return whether its target has on record that this opposite promotion ended its own."""
        later, own = self.flow.opposite.get(self.name), self.role
        return (
            later is not None
            and own is not None
            and (later.run_id, later.ends) == (promotion.run_id, own.run_id)
        )


class TopicView(NamedTuple, Generic[D]):
    """A topic by the records of both directions."""

    first: OneWay[D]
    second: OneWay[D]

    @property
    def promoted(self) -> OneWay[D] | None:
        """The direction of the newest promotion, or None if clients never moved, or a return moved them back.

        Two promotions are ordered by the return between them, or by the record of one side; else by their
        terms. Clocks decide only between equal terms, which an earlier version may have given.
        """
        first, second = self.first.role, self.second.role
        if first is None or second is None:
            return self.first if first is not None else self.second if second is not None else None
        later = (
            self.first.answers(second) or self.second.is_ended_by(first),
            self.second.answers(first) or self.first.is_ended_by(second),
        )
        if later[0] != later[1]:
            return self.first if later[0] else self.second
        ranks = (first.term, first.at_ms), (second.term, second.at_ms)
        return self.first if ranks[0] >= ranks[1] else self.second

    def other(self, side: OneWay[D]) -> OneWay[D]:
        """Return the opposite direction."""
        return self.second if side is self.first else self.first

    @property
    def names(self) -> tuple[str, str]:
        """The topic's name on the first direction's source, and on its target."""
        return self.first.name, self.first.copy

    @property
    def original(self) -> OneWay[D] | None:
        """The direction whose source clients write to before any promotion, or None if it is not one."""
        copying = [s for s in self if s.copies]
        fenced = [s for s in self if s.fence is FenceSeen.STANDS]
        if len(copying) == 1:
            return copying[0]
        return min(fenced, key=lambda s: s.flow.source) if len(fenced) == len(self) else None

    def refuses(self, alias: str) -> bool:
        """Return whether a cluster was seen to refuse every client for the topic."""
        return any(s.flow.target == alias and s.copy in s.flow.refusing.topics for s in self)

    @property
    def active(self) -> str:
        """Alias of the cluster that clients write to, or an empty text if it is unknown, both or neither."""
        if (promoted := self.promoted) is not None:
            alias = promoted.flow.target
        elif (original := self.original) is not None and not any(s.flow.unread for s in self):
            alias = original.flow.source
        else:
            return ""
        return "" if self.refuses(alias) else alias

    @property
    def unknown(self) -> tuple[str, ...]:
        """The flows whose state is unknown, each with the reason."""
        return tuple(f"{s.flow.name}: {s.flow.unread}" for s in self if s.flow.unread)


def observation_of(
    aliases: tuple[str, str],
    state: FlowState,
    opened: Mapping[str, RoleRecord] = MappingProxyType({}),
    *,
    younger: str = "",
    lost: Mapping[str, RoleRecord] = MappingProxyType({}),
    refusing: Refusing = NOT_ASKED,
) -> Observation:
    """Return what a flow's state has.

    :param aliases: of source and target
    :param opened: the promotions in its journal, by source topic
    :param younger: why it is younger than its journal, or empty
    :param lost: by :func:`lost_promotions`
    :param refusing: topics of the target that refuse every client, if it was asked
    :raises Damaged: a record of the state was replaced
    """
    roles = {topic: role for topic, role in state.all(RoleRecord).items() if role.is_promoted}
    newest = max(lost.values(), key=lambda role: role.term, default=None)
    known = f"which {aliases[0]} has on record"
    gone = f"{aliases[1]} has lost its promotion by run {newest.run_id}, {known}" if newest else ""
    return Observation(
        *aliases,
        unread=younger or gone,
        is_younger=bool(younger),
        recorded=lost,
        copies={topic: entry.target for topic, entry in state.all(GenerationRecord).items()},
        promoted=opened if younger else roles,
        returns=state.all(ReturnRecord),
        opposite=state.all(OppositePromotionRecord),
        refusing=refusing,
    )


def pair_view(first: D, second: D) -> Iterator[TopicView[D]]:
    """Yield the view of every topic of a pair, by its names.

    :param second: the direction from the target of the first to its source
    """
    names = {(topic, copy) for topic, copy in first.copies.items()}
    names |= {(copy, topic) for topic, copy in second.copies.items()}
    by_first, by_second = dict(names), {copy: topic for topic, copy in names}
    names |= {(t, copy) for t, copy in first.not_begun() if t not in by_first and copy not in by_second}
    names |= {(copy, t) for t, copy in second.not_begun() if t not in by_second and copy not in by_first}
    by_first, by_second = dict(names), {copy: topic for topic, copy in names}
    names |= {(t, t) for t in {*first.promoted, *first.recorded} if t not in by_first}
    names |= {(t, t) for t in {*second.promoted, *second.recorded} if t not in by_second}
    for topic, copy in sorted(names):
        yield TopicView(_one_way(first, topic, second, copy), _one_way(second, copy, first, topic))


def _one_way(flow: D, name: str, opposite: D, copy: str) -> OneWay[D]:
    """Return a direction with its newest promotion: by its own record, or else by the other side's."""
    own = flow.promoted.get(name)
    if not flow.unread:
        return OneWay(flow, name, copy, own)
    later = opposite.opposite.get(copy)
    known = [role for role in (own, flow.recorded.get(name)) if role is not None]
    if later is not None:
        known.append(RoleRecord(Role.PROMOTED, later.term, later.run_id, later.at_ms, planned=later.planned))
    return OneWay(flow, name, copy, max(known, key=lambda role: role.term, default=None))


class PairRoles(NamedTuple):
    """The roles of a flow's topics, by both directions; source topics."""

    opened: frozenset[str] = frozenset()
    """Clients write to the copy, by the newest promotion."""
    away: frozenset[str] = frozenset()
    """Clients write on the source since a promotion there that no return has answered."""
    moved_back: frozenset[str] = frozenset()
    """The newest promotion is on the source, whether or not a return has answered it."""


def roles_in(views: Iterable[TopicView[D]]) -> PairRoles:
    """Return the roles of the first direction's topics. A copy that refuses its clients is not opened."""
    opened, away, moved_back = set(), set(), set()
    for view in views:
        newest = view.promoted
        if newest is view.first and view.active == newest.flow.target:
            opened.add(newest.name)
        elif newest is view.second and newest.role is not None:
            moved_back.add(view.first.name)
            if not view.first.answers(newest.role):
                away.add(view.first.name)
    return PairRoles(frozenset(opened), frozenset(away), frozenset(moved_back))


def untold(view: TopicView[D]) -> tuple[OneWay[D], OppositePromotionRecord] | None:
    """Return the direction whose target has no record of the newest promotion, and that record; or None."""
    newest = view.promoted
    if newest is None or newest.role is None:
        return None
    ended, role = view.other(newest), newest.role
    known = ended.flow.opposite.get(ended.name)
    if ended.flow.unread or not (ended.copies or ended.role) or (known and known.run_id == role.run_id):
        return None
    ends = None if ended.role is None else ended.role.run_id
    return ended, OppositePromotionRecord(role.term, role.run_id, role.at_ms, ends, role.planned)


def lost_promotions(log: FenceLog | None, state: FlowState, runs: Collection[str]) -> dict[str, RoleRecord]:
    """Return the promotions on record on the source that the target has lost, by source topic.

    The target came back from an older disk, or is an empty replacement: state and journal agree, and lack it.

    :param runs: ids of all runs in the flow's journal, which is on the target
    """
    terms = topic_terms(state)
    recorded = promotions_in(log).items()
    return {t: role for t, role in recorded if role.run_id not in runs and role.term > terms.get(t, 0)}


_OPENS: Final = frozenset({FenceMark.OPENING, FenceMark.OPENED})


def promotions_in(log: FenceLog | None) -> dict[str, RoleRecord]:
    """Return source topic → the promotion of its copy, by the record of a flow's fences on its source.

    A run that marked there that it opens its target may have opened it.
    """
    return {
        topic: RoleRecord(Role.PROMOTED, fence.term, run_id, fence.at_ms)
        for run_id, fence in (log.records if log is not None else {}).items()
        if fence.mark in _OPENS
        for topic in fence.topics
    }
