"""The topics of a return: what a failover has promoted, and the reverse flow does not copy yet."""

from __future__ import annotations

from collections.abc import Collection

from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.checks.written import refusal, stopped
from drkit.failover.core.choices import choices_among
from drkit.failover.core.commands import begin_command
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_flow, state_of
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.records import ReturnRecord, RoleRecord
from drkit.model import TopicPartition


def begun(context: Context) -> dict[str, str]:
    """Topics of the new primary that the reverse flow may copy, with the run that promoted them.

    Empty where the reverse flow never ran.

    :raises DrkitError: the old primary does not answer
    """
    with state_of(context.settings, reverse_flow(context)) as state:
        known = state.all(ReturnRecord) if state is not None else {}
    return {topic: record.promoted_by for topic, record in known.items()}


def promoted(context: Context) -> dict[str, RoleRecord]:
    """The promoted topics of the flow, by their names on the old primary, from the loaded state."""
    roles, known = context.state.all(RoleRecord), context.known.topics
    return {name: role for name, role in sorted(roles.items()) if role.is_promoted and name in known}


def choose(context: Context, topics: Collection[str] = (), *, while_away: bool = False) -> dict[str, str]:
    """The topics to return: their names on the old primary → on the new one.

    :param topics: only these; empty: all
    :param while_away: also while the old primary does not answer: then all that a failover has promoted

    :raises ConfigError: no reverse flow is configured
    :raises Refused: there is nothing to return, or a topic was promoted by a drkit that noted too little
    :raises DrkitError: the old primary does not answer
    """
    roles, known = promoted(context), context.known.topics
    try:
        done = begun(context)
    except ClusterUnreachable:
        if not while_away:
            raise
        done = {}
    waiting = {name: role for name, role in roles.items() if done.get(known[name][0]) != role.run_id}
    others = sorted(name for name in waiting if topics and name not in topics)
    waiting = {name: role for name, role in waiting.items() if name not in others}
    flow = context.flow
    if not waiting and (found := _stopped(context, topics)):
        raise refusal(reverse_flow(context).name, flow.source, found)
    if not waiting and others:
        raise Refused(
            "nothing_to_protect_in_topics",
            where=f"flow {flow.name}",
            evidence=f"of its promoted topics these wait for their return: {first_of(others)}",
            command=begin_command(context, choices_among(context.request, others)),
        )
    if not waiting:
        raise Refused(
            "nothing_to_protect",
            where=f"flow {flow.name}",
            evidence=f"{flow.target}->{flow.source} copies every promoted topic already"
            if roles
            else f"no failover has promoted a topic on {flow.target}",
        )
    if unnoted := [name for name, role in waiting.items() if role.frontiers is None or role.ends is None]:
        raise Refused(
            "copy_end_unrecorded_role",
            where=f"{flow.source}: {first_of(unnoted)}",
            evidence=f"promoted by the failover {waiting[unnoted[0]].run_id} of an earlier version of drkit",
            flow=flow.name,
            source=flow.source,
        )
    return {name: known[name][0] for name in waiting}


def _stopped(context: Context, topics: Collection[str]) -> dict[TopicPartition, str]:
    """The partitions to whose copies another client has written: the reverse flow copies them no more."""
    with state_of(context.settings, reverse_flow(context)) as state:
        names = {context.known.topics[t][0] for t in topics if t in context.known.topics}
        return stopped(state.records, names) if state is not None and bool(names) == bool(topics) else {}


def unplanned(context: Context) -> dict[str, RoleRecord]:
    """The topics of the scope that no switchover promoted: the old primary may have records of its own."""
    roles = context.state.all(RoleRecord)
    return {name: roles[name] for name in context.scope.topics if not roles[name].planned}


def not_returned(context: Context) -> list[str]:
    """The topics of the scope that the reverse flow may not copy yet, by their names on the old primary.

    :raises DrkitError: the old primary does not answer
    """
    roles, done = context.state.all(RoleRecord), begun(context)
    return [name for name, topic in context.scope.topics.items() if done.get(topic) != roles[name].run_id]


def pairs(context: Context) -> list[CopiedPartition]:
    """Every partition of the scope with its copy, in the direction of the flow, by the loaded state."""
    known, roles = context.known, context.state.all(RoleRecord)
    return [
        known.pair(name, number)
        for name in sorted(context.scope.topics)
        for number in sorted(roles[name].ends or {})
    ]


def turned(pair: CopiedPartition) -> CopiedPartition:
    """A partition and its copy as the reverse flow has them."""
    return CopiedPartition(pair.target, pair.source, pair.target_id, pair.source_id)
