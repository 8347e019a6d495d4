"""The promotions that count by one flow's state, with what the other direction has told it. Pure.

A role is the newest word of its own direction. A later failover in the other direction ends it, and is told
to this side by an :class:`OppositePromotionRecord` while both clusters answer: at the end of a run, or at the
first contact. So the answers here hold also while the other cluster is away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from drkit.flow_state.records import (
    ClustersRecord,
    GenerationRecord,
    OffsetMapRecord,
    OppositePromotionRecord,
    PromotionRecord,
    ReturnRecord,
    RoleRecord,
)
from drkit.flow_state.state import FlowState


def is_ended(role: RoleRecord, later: OppositePromotionRecord | None) -> bool:
    """Return whether a promotion of the other direction is newer than a role."""
    return later is not None and (later.ends == role.run_id or later.term > role.term)


def promotions_of(state: FlowState) -> dict[str, RoleRecord]:
    """Return source topic → the promotion of its copy; none that a later one of the other direction ended.

    :raises Damaged: a record of them was replaced
    """
    later = state.all(OppositePromotionRecord)
    roles = state.all(RoleRecord).items()
    return {t: role for t, role in roles if role.is_promoted and not is_ended(role, later.get(t))}


def promoted_of(state: FlowState) -> frozenset[str]:
    """Return the source topics of :func:`promotions_of`: producers own their copies."""
    return frozenset(promotions_of(state))


def away_from(state: FlowState) -> dict[str, OppositePromotionRecord]:
    """Return source topic → the promotion of the other direction that no return has answered.

    Clients write there since, and nothing of that is copied here: what was noted of the source before is
    of an earlier life.
    """
    roles, returns = state.readable(RoleRecord), state.readable(ReturnRecord)
    return {
        topic: later
        for topic, later in state.readable(OppositePromotionRecord).items()
        if not (topic in roles and roles[topic].is_promoted and not is_ended(roles[topic], later))
        and not (topic in returns and returns[topic].promoted_by == later.run_id)
    }


def flow_promotion_of(state: FlowState) -> PromotionRecord | None:
    """Return the failover that promoted the whole flow, or None if there is none, or a later one ended it."""
    found = state.get(PromotionRecord)
    if found is None:
        return None
    later = state.readable(OppositePromotionRecord).values()
    return None if any(r.ends == found.run_id or r.term > found.term for r in later) else found


def is_over(state: FlowState, counts: Callable[[str], bool] = lambda _topic: True) -> bool:
    """Return whether failovers promoted all that a flow copied, at once or part by part.

    :param counts: whether a source topic is one that clients write, and the flow is to copy
    :raises Damaged: a record of it was replaced
    """
    copied = [topic for topic in state.all(GenerationRecord) if counts(topic)]
    every = bool(copied) and promoted_of(state).issuperset(copied)
    return every or flow_promotion_of(state) is not None


def term_of(state: FlowState) -> int:
    """Return the newest term that a flow's state knows, of either direction; 0 before the first run."""
    promotion = state.get(PromotionRecord)
    terms = [promotion.term if promotion is not None else 0]
    terms += [role.term for role in state.all(RoleRecord).values()]
    terms += [later.term for later in state.all(OppositePromotionRecord).values()]
    return max(*terms, *(begun.term or 0 for begun in state.all(ReturnRecord).values()), 0)


def returned_topics(state: FlowState) -> tuple[str, ...]:
    """Return the source topics that are copied since a return, and that no failover has promoted since."""
    return tuple(sorted(state.readable(ReturnRecord).keys() - promoted_of(state)))


def still_away(
    roles: Mapping[str, RoleRecord], copies: Mapping[str, str], returned: Mapping[str, ReturnRecord]
) -> dict[str, RoleRecord]:
    """Return the promoted topics that no return has answered: the flow back does not copy them.

    :param copies: source topic → its copy
    :param returned: copy → its latest return
    """
    return {
        topic: role
        for topic, role in roles.items()
        if (found := returned.get(copies[topic])) is None or found.promoted_by != role.run_id
    }


def are_opposite(state: FlowState, other: FlowState) -> bool:
    """Return whether two flows copy between the same clusters; others may have the same names."""
    own, theirs = state.get(ClustersRecord), other.get(ClustersRecord)
    return own is None or theirs is None or (own.source, own.target) == (theirs.target, theirs.source)


def lost_state(state: FlowState, opened: Collection[str], *, is_another: bool = False) -> str:
    """Return why a state is younger than the flow's journal, or an empty text if it is not known to be.

    A missing record of such a state is unknown, not its default.

    :param opened: runs that have opened topics, by the journal
    :param is_another: whether the journal names another state topic than the one that was read
    """
    missing = [kind.KEY for kind in (ClustersRecord, OffsetMapRecord) if state.get(kind) is None]
    if not opened or not (missing or is_another):
        return ""
    lack = f"has no record of {' and '.join(missing)}" if missing else "topic was deleted, and is another one"
    return f"its state {lack}; its journal has run {min(opened)}"
