"""The settings of some copies, compared once more: since the last round of the topic sync they may differ."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from drkit.config import FlowSettings
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics, topic_configs
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.change import TopicChanges
from drkit.topic_sync.rules import Pair, TopicSyncResult, without_held

CopiedIds = Mapping[str, tuple[str, UUID, UUID]]
"""Source topic → name of its copy, id on the source, id on the target."""


def follow_settings(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, copied: CopiedIds
) -> tuple[list[str], list[str]]:
    """Bring the settings of some copies in step, as the next round of the topic sync would.

    :param state: of the flow, loaded
    :returns: what was changed or could not be; and the changes that are delayed, because the copy would keep
        fewer records
    :raises DrkitError: a cluster does not answer, or refuses
    """
    pairs, done = _pairs(source, target, flow, state, copied), TopicSyncResult()
    TopicChanges(target, flow, state, TopicEvents(flow, state, effects=True), effects=True).make(done, pairs)
    changed = [f"{name}: {what}" for name, what in sorted(done.actions.items())]
    delayed = [f"{row.topic}: {row.setting} {row.before} → {row.after}" for row in done.delayed]
    return changed + [f"{name}: {why}" for name, why in sorted(done.left_out.items())], delayed


def _pairs(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, copied: CopiedIds
) -> list[Pair]:
    """The topics that are still those that were copied, without what a hold has set on them."""
    sources = describe_topics(source, copied)
    targets = describe_topics(target, {name for name, _, _ in copied.values()})
    configs = topic_configs(source, sources)
    # A hold is on record before it shows, so it is asked for after the settings.
    opposite = OppositeFlows(source, target, flow, state, 0.0)
    try:
        opposite.find()
        held = opposite.held()
    finally:
        opposite.close()
    found = []
    for name, (copy, source_id, target_id) in sorted(copied.items()):
        topic, its_copy = sources.get(name), targets.get(copy)
        if topic is None or its_copy is None:
            continue
        if (topic.topic_id, its_copy.topic_id) == (source_id, target_id):
            found.append(Pair(topic, without_held(configs[name], held.get(name, {})), copy, its_copy))
    return found
