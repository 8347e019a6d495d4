"""When a flow may copy a topic that the flow in the other direction has promoted. Pure.

A promotion moves a topic's primary to this flow's source. Records of the old primary beyond the promotion
would come before all copied records, so copying waits for a return that has made it a standby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from drkit.config import FlowSettings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.copied_topics import known_of, promoted_of
from drkit.flow_state.records import (
    ClustersRecord,
    GenerationRecord,
    HeldSettingsRecord,
    PendingFence,
    PendingLift,
    PromotionRecord,
    ReturnRecord,
    RoleRecord,
    SourceSeenRecord,
)
from drkit.flow_state.state import Damaged, FlowState
from drkit.next_command import typed


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
        if role is None or not role.is_promoted:
            continue
        if begun is None or begun.promoted_by != role.run_id:
            found[topic] = role
    return found


def still_away(
    roles: Mapping[str, RoleRecord], copies: Mapping[str, str], returned: Mapping[str, ReturnRecord]
) -> dict[str, RoleRecord]:
    """Those promoted topics that no return has answered: the flow back does not copy them.

    :param copies: source topic → its copy
    :param returned: copy → its latest return
    """
    return {
        topic: role
        for topic, role in roles.items()
        if (found := returned.get(copies[topic])) is None or found.promoted_by != role.run_id
    }


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
    where = f"topic {topic}, flow {flow.name}"
    if role.planned:
        return Refused(
            "promoted_by_switchover",
            where=where,
            evidence=f"{flow.source} has been its primary since term {role.term}",
            run_id=role.run_id,
            to_reprotect=to_reprotect(flow.target, flow.source),
            target=flow.target,
        )
    return Refused(
        "promoted_by_failover",
        where=where,
        evidence=f"records that only {flow.target} has would stand in front of new ones, and groups that lag"
        " would skip records",
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


def is_over(state: FlowState) -> bool:
    """Whether a failover has promoted all that a flow copied: it copies no topic that it has not copied.

    :raises Damaged: a record of it was replaced
    """
    if state.get(PromotionRecord) is not None:
        return True
    promoted = promoted_of(state)
    return bool(promoted) and promoted >= state.all(GenerationRecord).keys()


def unexplained(
    flow: FlowSettings, opposites: Collection[FlowState], topics: Collection[str], *, both_ways: bool
) -> dict[str, str]:
    """Topics of the target whose records no flow in the other direction accounts for.

    They may be what such a flow copies from there. With prefixed names a copy has no other writer. A flow
    whose failover is over has left behind what it never copied: the target alone has these records.

    :param opposites: states of the flows in the other direction
    :param topics: of the target, new to this flow
    :param both_ways: this process runs such a flow, which may not be recorded yet
    :returns: topic → what saves its records; empty: nothing is known of them
    """
    if flow.naming == "prefix" or not (both_ways or opposites):
        return dict.fromkeys(topics, "")
    if not any(map(is_over, opposites)):
        return {}
    copied = {name for state in opposites for name in state.readable(GenerationRecord)}
    return {t: _to_save_uncopied(flow, t) for t in topics if t not in copied}


def _to_save_uncopied(flow: FlowSettings, topic: str) -> str:
    """What saves the records of a topic that only the target of a flow has, and lets it be copied then."""
    export = typed("drkit", "divergence", "export", "--flow", f"{flow.target}->{flow.source}")
    return (
        f"save them: {export} {typed('--topic', topic)} --to PLACE; drkit replay --from MANIFEST appends them"
        f" on {flow.source}; then delete the topic on {flow.target} to copy it from the start"
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

    :param state: of the flow
    :raises Damaged: a record of them was replaced
    """
    topics, cuts = state.all(GenerationRecord), {at.topic for at in known_of(state).cuts}
    returned = cuts | state.all(ReturnRecord).keys()
    return frozenset(entry.target for name, entry in topics.items() if name in returned)
