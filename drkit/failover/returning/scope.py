"""The topics of a failback: what a failover has promoted, and the reverse flow does not copy yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from drkit.config import FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.checks.foreign_writes import refusal, stopped
from drkit.failover.core.commands import begin_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import choices_among
from drkit.failover.core.reverse import (
    moved_back_in_words,
    opposite_flow,
    pair_roles,
    records_of,
    reverse_flow,
)
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.records import GenerationRecord, ReturnRecord, RoleRecord
from drkit.model import TopicPartition
from drkit.pair.promotions import promotions_of, still_away


def begun(context: Context) -> dict[str, str]:
    """Return topics of the new primary that the reverse flow may copy, and the run that promoted them.

    Empty where the reverse flow never ran.

    :raises DrkitError: the old primary does not answer
    """
    known = records_of(context.settings, reverse_flow(context)).all(ReturnRecord)
    return {topic: record.promoted_by for topic, record in known.items()}


def promoted(context: Context) -> dict[str, RoleRecord]:
    """Return the promoted topics of the flow that no later failover has moved back. Raises DrkitError."""
    roles = promotions_of(context.state.records)
    names = roles.keys() & context.known.topics.keys() - pair_roles(context).moved_back
    return {name: roles[name] for name in sorted(names)}


def choose(context: Context, topics: Collection[str] = (), *, while_away: bool = False) -> dict[str, str]:
    """Return the topics to fail back: their names on the old primary → on the new one.

    :param topics: only these; all if empty
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
    if not waiting and (written := _stopped(context, topics)):
        raise refusal(reverse_flow(context).name, flow.source, written)
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
            else moved_back_in_words(flow)
            if promotions_of(context.state.records)
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
    state = records_of(context.settings, reverse_flow(context))
    names = {context.known.topics[t][0] for t in topics if t in context.known.topics}
    return stopped(state, names) if bool(names) == bool(topics) else {}


def unplanned(context: Context) -> dict[str, RoleRecord]:
    """Return the topics that no switchover promoted: the old primary may have records of its own."""
    roles = context.state.all(RoleRecord)
    return {name: roles[name] for name in context.scope.topics if not roles[name].planned}


def not_returned(context: Context) -> list[str]:
    """Return the topics that the reverse flow may not copy yet. Raises DrkitError if a cluster is silent."""
    roles, done = context.state.all(RoleRecord), begun(context)
    return [name for name, topic in context.scope.topics.items() if done.get(topic) != roles[name].run_id]


def pairs(context: Context) -> list[CopiedPartition]:
    """Return every partition of the scope with its copy, in the direction of the flow."""
    known, roles = context.known, context.state.all(RoleRecord)
    return [
        known.pair(name, number)
        for name in sorted(context.scope.topics)
        for number in sorted(roles[name].ends or {})
    ]


def turned(pair: CopiedPartition) -> CopiedPartition:
    """Return a partition and its copy as the reverse flow has them."""
    return CopiedPartition(pair.target, pair.source, pair.target_id, pair.source_id)


def pairs_of_flows(settings: Settings) -> Iterator[tuple[FlowSettings, FlowSettings]]:
    """Yield every flow that has an opposite one, with that one."""
    for there in settings.flows:
        if (back := opposite_flow(settings, there)) is not None:
            yield there, back


def promoted_copies(settings: Settings, there: FlowSettings) -> dict[str, RoleRecord]:
    """Return the promoted topics of a flow, by their names on the new primary. Raises DrkitError."""
    state = records_of(settings, there)
    topics, roles = state.all(GenerationRecord), promotions_of(state).items()
    return {topics[name].target: role for name, role in roles if name in topics}


class MovedTopics(NamedTuple):
    """The promoted topics of a flow, by their names on the new primary."""

    waiting: dict[str, RoleRecord]
    """Those that are not copied back yet."""
    returned: dict[str, RoleRecord]


def moved_topics(settings: Settings, there: FlowSettings, back: FlowSettings) -> MovedTopics:
    """Return the topics that a flow has promoted.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction
    :raises DrkitError: a cluster does not answer
    """
    roles = promoted_copies(settings, there)
    known = records_of(settings, back).all(ReturnRecord) if roles else {}
    waiting = still_away(roles, {t: t for t in roles}, known)
    return MovedTopics(waiting, {t: role for t, role in roles.items() if t not in waiting})


def switched(settings: Settings, there: FlowSettings, back: FlowSettings) -> list[str]:
    """Return the waiting topics that a switchover promoted, by their names on the old primary.

    The old primary has no record of its own in them: no decision is needed. A topic that the flow back does
    not copy waits for a person.
    """
    roles = moved_topics(settings, there, back).waiting.items()
    waits = {topic for topic, role in roles if role.planned and back.copies(topic)}
    topics = records_of(settings, there).all(GenerationRecord) if waits else {}
    return sorted(name for name, record in topics.items() if record.target in waits)


def may_wait(settings: Settings, there: FlowSettings, back: FlowSettings) -> bool:
    """Return whether topics wait, or may wait while the old primary does not answer. Raises DrkitError."""
    try:
        return bool(moved_topics(settings, there, back).waiting)
    except ClusterUnreachable:
        return bool(promoted_copies(settings, there))


def died(settings: Settings, there: FlowSettings) -> bool:
    """Return whether an unplanned failover of a flow has moved clients. Raises DrkitError if unanswered."""
    return any(not role.planned for role in promoted_copies(settings, there).values())
