"""The promotions that count by one flow's state, and the topics that a flow may not copy yet. Pure.

A role is the newest decision of its own direction. A later failover in the other direction ends it. While
both clusters answer, at the end of a run or at the first contact, this side records that failover in an
:class:`OppositePromotionRecord`. So the results here are valid while the other cluster is away, too.

A promotion moves a topic's primary to the opposite flow's source. Records of the old primary beyond the
promotion would come before all copied records, so copying waits for a return that has made it a standby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from drkit.config import FlowSettings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.records import (
    ClustersRecord,
    GenerationRecord,
    HeldSettingsRecord,
    OpenedRecord,
    OppositePromotionRecord,
    PendingFence,
    PendingLift,
    PromotionRecord,
    ReturnRecord,
    RoleRecord,
    SourceSeenRecord,
)
from drkit.flow_state.state import Damaged, FlowState
from drkit.next_command import typed


def is_ended(own: RoleRecord | PromotionRecord, later: OppositePromotionRecord | None) -> bool:
    """Return whether a promotion of the other direction is newer than one of this direction."""
    return later is not None and (later.ends == own.run_id or later.term > own.term)


def is_answered(promotion: RoleRecord | OppositePromotionRecord, failback: ReturnRecord | None) -> bool:
    """Return whether a topic's latest failback, if there is one, followed this promotion."""
    return failback is not None and failback.promoted_by == promotion.run_id


def promotions_of(state: FlowState) -> dict[str, RoleRecord]:
    """Return source topic → the promotion of its copy; none that a later one of the other direction ended.

    :raises Damaged: a record of them was replaced
    """
    later = state.all(OppositePromotionRecord)
    return _not_ended(state.all(RoleRecord), later)


def _not_ended(
    roles: Mapping[str, RoleRecord], later: Mapping[str, OppositePromotionRecord]
) -> dict[str, RoleRecord]:
    return {t: role for t, role in roles.items() if role.is_promoted and not is_ended(role, later.get(t))}


def promoted_of(state: FlowState) -> frozenset[str]:
    """Return the source topics of :func:`promotions_of`: producers own their copies."""
    return frozenset(promotions_of(state))


def away_from(state: FlowState) -> dict[str, OppositePromotionRecord]:
    """Return source topic → the promotion of the other direction that no return has answered.

    Clients write there since, and nothing of that is copied here: what was noted of the source before is
    of an earlier life.
    """
    later, returns = state.readable(OppositePromotionRecord), state.readable(ReturnRecord)
    own = _not_ended(state.readable(RoleRecord), later)
    return {t: each for t, each in later.items() if t not in own and not is_answered(each, returns.get(t))}


def flow_promotion_of(state: FlowState) -> PromotionRecord | None:
    """Return the failover that promoted the whole flow, or None if there is none, or a later one ended it."""
    promotion = state.get(PromotionRecord)
    if promotion is None:
        return None
    later = state.readable(OppositePromotionRecord).values()
    return None if any(is_ended(promotion, each) for each in later) else promotion


def is_over(state: FlowState, flow: FlowSettings) -> bool:
    """Return whether failovers promoted all that a flow copied, at once or part by part.

    :param flow: either direction of the pair: its topics count, without heartbeats
    :raises Damaged: a record of it was replaced
    """
    chosen, beats = flow.topic_filter.accepts, flow.is_heartbeats
    copied = [topic for topic in state.all(GenerationRecord) if chosen(topic) and not beats(topic)]
    every = bool(copied) and promoted_of(state).issuperset(copied)
    return every or flow_promotion_of(state) is not None


def left_behind(state: FlowState, flow: FlowSettings) -> bool:
    """Return whether topics that a flow has not copied stay behind: its source was lost, or it is over."""
    with suppress(Damaged):
        return is_over(state, flow) or not all(role.planned for role in promotions_of(state).values())
    return True


def opened_term(state: FlowState) -> int:
    """Return the term of the newest failover that opened topics, as this state has it; 0 for none."""
    newest = state.get(OpenedRecord)
    return 0 if newest is None else newest.term


def term_of(state: FlowState) -> int:
    """Return the newest term that a flow's state knows, of either direction; 0 before the first run."""
    promotion = state.get(PromotionRecord)
    return max(0 if promotion is None else promotion.term, *topic_terms(state).values(), 0)


def topic_terms(state: FlowState) -> dict[str, int]:
    """Return the newest term, of either direction, by source topic in a flow's state."""
    records = state.all(RoleRecord), state.all(OppositePromotionRecord), state.all(ReturnRecord)
    terms = Counter[str]()
    for by_topic in records:
        terms |= Counter({topic: record.term or 0 for topic, record in by_topic.items()})
    return terms


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
    return {t: role for t, role in roles.items() if not is_answered(role, returned.get(copies[t]))}


def are_opposite(state: FlowState, other: FlowState) -> bool:
    """Return whether two flows copy between the same clusters; others may have the same names."""
    own, theirs = state.get(ClustersRecord), other.get(ClustersRecord)
    return own is None or theirs is None or (own.source, own.target) == (theirs.target, theirs.source)


def without_return(opposite: FlowState, own: FlowState) -> dict[str, RoleRecord | Damaged]:
    """Topics of a flow's source that its opposite flow has promoted, and whose return has not begun.

    :param opposite: the state of the flow in the other direction, which is on this flow's source
    :param own: this flow's state
    :returns: topic → its promotion; where a record needed to tell was replaced, that error
    """
    copies = opposite.readable(GenerationRecord)
    damaged = [name for name in copies if opposite.is_damaged(RoleRecord, name)]
    found: dict[str, RoleRecord | Damaged] = {}
    for name in (*opposite.readable(RoleRecord), *damaged):
        topic = copies[name].target if name in copies else name
        try:
            role, begun = opposite.get(RoleRecord, name), own.get(ReturnRecord, topic)
        except Damaged as error:
            found[topic] = error
            continue
        if role is not None and role.is_promoted and not is_answered(role, begun):
            found[topic] = role
    return found


def waiting_topics(
    flow: FlowSettings, opposites: Iterable[FlowState], own: FlowState
) -> dict[str, DrkitError]:
    """Topics of a flow's source that are not copied before their return, and why.

    With prefixed names there are none: a copy has a name of its own, and nothing of the old primary is in it.

    :param opposites: states of the flows in the other direction
    :param own: the flow's own state
    """
    if flow.naming == "prefix":
        return {}
    found: dict[str, DrkitError] = {}
    for state in opposites:
        for topic, role in without_return(state, own).items():
            found[topic] = role if isinstance(role, Damaged) else why_not_copied(flow, topic, role)
    return found


def why_not_copied(flow: FlowSettings, topic: str, role: RoleRecord) -> Refused:
    """The reason why a flow leaves out a topic that its opposite flow has promoted, and what to do."""
    since = f"{flow.source} has been its primary since term {role.term}"
    only = f"records that only {flow.target} has would stand in front of new ones"
    return Refused(
        "promoted_by_switchover" if role.planned else "promoted_by_failover",
        where=f"topic {topic}, flow {flow.name}",
        evidence=since if role.planned else f"{only}, and groups that lag would skip records",
        run_id=role.run_id,
        to_reprotect=to_reprotect(flow.target, flow.source),
        target=flow.target,
    )


def refuse_replaced(flow: FlowSettings, state: FlowState, source_id: str) -> None:
    """Refuse to copy from another cluster than the one that a failover has left.

    Its fences, and what is pending there, are on record by the flow alone. With another cluster's id on
    record that one would be fenced, and the old primary would come back without a fence.

    :param source_id: cluster id of what answers as the flow's source
    :raises Refused: it is another one, and topics were promoted, or a fence or its lift is pending
    """
    known = state.get(ClustersRecord)
    if known is None or known.source == source_id:
        return
    promoted = promoted_of(state)
    if promoted or state.get(PendingFence) is not None or state.get(PendingLift) is not None:
        reprotect = to_reprotect(flow.source, flow.target)
        raise Refused(
            "source_replaced",
            where=f"{flow.name}: {flow.source}",
            evidence=f"its cluster id is {source_id}, the flow copied {known.source}",
            source=flow.source,
            reprotect=reprotect,
            source_id=typed("--new-primary", source_id),
        )


def to_reprotect(primary: str, standby: str) -> str:
    """The command that makes the old primary the standby of the new one.

    :param primary: alias of the old primary
    :param standby: alias of the cluster that was promoted
    """
    return typed("drkit", "reprotect", "--flow", f"{primary}->{standby}")


def held_settings(opposite: FlowState, now_ms: int) -> dict[str, Mapping[str, str]]:
    """Values of settings of a flow's source that are not the topics' own, by topic: a person holds them.

    :param opposite: the state of the flow in the other direction, which is on this flow's source
    """
    copies = opposite.readable(GenerationRecord)
    return {
        copies[name].target: record.not_its_own(now_ms)
        for name, record in opposite.readable(HeldSettingsRecord).items()
        if name in copies
    }


def not_noted_since(state: FlowState) -> frozenset[str]:
    """Source topics that a turn began to copy since the source's ends were noted last.

    What the note says of those is of an earlier life: their copies may have been emptied. The note names the
    turns that its writer knew, and how many topics each had begun: while a turn begins more, none of its
    topics counts. Only the note of an earlier release is compared by time, which two clocks tell.
    """
    seen, returns = state.get(SourceSeenRecord), state.readable(ReturnRecord)
    if seen is None:
        return frozenset(returns)
    if seen.returns is None:
        return frozenset(topic for topic, begun in returns.items() if begun.at_ms >= seen.at_ms)
    begun_now = Counter(begun.run_id for begun in returns.values())
    late = {run_id for run_id, topics in begun_now.items() if topics > seen.returns.get(run_id, 0)}
    return frozenset(topic for topic, begun in returns.items() if begun.run_id in late)


def never_noted(state: FlowState, partitions: Mapping[str, int]) -> frozenset[str]:
    """Source topics with partitions that are younger than the last note of the source's ends.

    A failover does not know what is missing of those: the note says nothing of them.

    :param partitions: of each source topic, by a look
    """
    seen = state.get(SourceSeenRecord)
    noted = Counter(at.topic for at in seen.ends) if seen is not None else Counter[str]()
    return frozenset(topic for topic, number in partitions.items() if number > noted[topic])


def begun_by_turn(state: FlowState) -> frozenset[str]:
    """Topics on a flow's target whose copying began with a turn: positions there continue the earlier ones.

    Not those that were promoted on the source since, and did not return: groups committed there as clients.

    :param state: of the flow
    :raises Damaged: a record of them was replaced
    """
    topics, cuts = state.all(GenerationRecord), {at.topic for at in known_of(state).cuts}
    returned = (cuts | state.all(ReturnRecord).keys()) - away_from(state).keys()
    return frozenset(entry.target for name, entry in topics.items() if name in returned)
