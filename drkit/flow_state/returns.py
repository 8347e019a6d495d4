"""When a flow may copy a topic that the flow in the other direction has promoted. Pure.

A promotion moves a topic's primary to this flow's source. Records of the old primary beyond the promotion
would come before all copied records, so copying waits for a return that has made it a standby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from drkit.config import FlowSettings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.copied_topics import cuts_of, promoted_of
from drkit.flow_state.records import (
    GenerationRecord,
    HeldSettingsRecord,
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
            f"the topic was promoted by the switchover {role.run_id}, and its return has not begun",
            where=where,
            evidence=f"{flow.source} has been its primary since term {role.term}",
            hint=f"{to_reprotect(flow.target, flow.source)} makes {flow.target} its standby",
        )
    return Refused(
        f"the topic was promoted by the failover {role.run_id}, and its return has not begun",
        where=where,
        evidence=f"records that only {flow.target} has would stand in front of new ones, and groups that lag"
        " would skip records",
        hint=f"{to_reprotect(flow.target, flow.source)} saves these, then makes {flow.target} its standby",
    )


def is_over(state: FlowState) -> bool:
    """Whether a failover has promoted all that a flow copied: it copies no topic that it has not copied.

    :raises Damaged: a record of it was replaced
    """
    if state.get(PromotionRecord) is not None:
        return True
    promoted = promoted_of(state)
    return bool(promoted) and promoted >= state.all(GenerationRecord).keys()


def to_save_uncopied(flow: FlowSettings, topic: str) -> str:
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


def never_noted(state: FlowState) -> frozenset[str]:
    """Copied source topics that are younger than the last note of the source's ends, or deleted there.

    A failover does not know what is missing of those: the note says nothing of them.
    """
    seen = state.get(SourceSeenRecord)
    noted = {at.topic for at in seen.ends} if seen is not None else set()
    return frozenset(state.readable(GenerationRecord).keys() - noted)


def begun_by_turn(state: FlowState) -> frozenset[str]:
    """Topics on a flow's target whose copying began with a turn: positions there continue the earlier ones.

    :param state: of the flow
    :raises Damaged: a record of them was replaced
    """
    topics, cuts = state.all(GenerationRecord), {at.topic for at in cuts_of(state)}
    returned = cuts | state.all(ReturnRecord).keys()
    return frozenset(entry.target for name, entry in topics.items() if name in returned)
