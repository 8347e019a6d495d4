"""Compares settings and ACLs of copies again: they may differ since the last round of the sync."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from uuid import UUID

from drkit.config import ClusterSettings, FlowSettings
from drkit.counted import first_of
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import AclsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import NoAuthorizer
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics, topic_configs, topic_names
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.acl_sync import AclSync
from drkit.topic_sync.change import TopicChanges
from drkit.topic_sync.rules import Pair, TopicSyncResult, without_held
from drkit.topology.acls import AclRecord

CopiedIds = Mapping[str, tuple[str, UUID, UUID]]
"""Source topic → name of its copy, id on the source, id on the target."""


def follow_settings(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, copied: CopiedIds
) -> list[str]:
    """Bring the settings of some copies in step, as the next round of the topic sync would; return notes.

    :param state: of the flow, loaded
    :raises DrkitError: a cluster does not answer, or refuses
    """
    pairs, done = _pairs(source, target, flow, state, copied), TopicSyncResult()
    TopicChanges(target, flow, state, TopicEvents(flow, state, effects=True), effects=True).make(done, pairs)
    changed = [f"{name}: {what}" for name, what in sorted({**done.actions, **done.left_out}.items())]
    delayed = [f"{row.topic}: {row.setting} {row.before} → {row.after}" for row in done.delayed]
    todo = f"to follow them, set them on {flow.target}"
    notes = [f"settings followed: {first_of(changed)}"] if changed else []
    delays = f"settings not followed, they remove records: {first_of(delayed)}; {todo}"
    return notes + ([delays] if delayed else [])


def follow_acls(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, writer: ClusterSettings
) -> list[str]:
    """Bring the ACLs of the copies in step, as the next round would; return notes.

    :param state: of the flow, loaded
    :param writer: how copy tasks reach the target
    :raises DrkitError: a cluster does not answer, or refuses
    """
    before = state.get(AclsRecord) or AclsRecord(AclRecord())
    with OppositeFlows(source, target, flow, state, 0.0) as opposite, suppress(NoAuthorizer):
        sync = AclSync(source, target, flow, state, opposite=opposite, writer=writer)
        plan = sync.look(topic_names(source))
        # A right to write is held back until the copies are opened.
        changed = {change.acl for change in plan.changes} | (plan.record.held ^ before.plan.held)
        return [f"ACLs followed: {first_of(sorted(changed))}"] if changed else []
    return []


def _pairs(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, copied: CopiedIds
) -> list[Pair]:
    """The topics that are still those that were copied, without what a hold has set on them."""
    sources = describe_topics(source, copied)
    targets = describe_topics(target, {name for name, _, _ in copied.values()})
    configs = topic_configs(source, sources)
    # A hold is on record before it shows, so it is asked for after the settings.
    with OppositeFlows(source, target, flow, state, 0.0) as opposite:
        held = opposite.held()
    found = []
    for name, (copy, source_id, target_id) in sorted(copied.items()):
        topic, its_copy = sources.get(name), targets.get(copy)
        if topic is None or its_copy is None:
            continue
        if (topic.topic_id, its_copy.topic_id) == (source_id, target_id):
            found.append(Pair(topic, without_held(configs[name], held.get(name, {})), copy, its_copy))
    return found
