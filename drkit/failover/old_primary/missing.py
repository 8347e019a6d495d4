"""Creates topics that the old primary no longer has, or never had, before they are seeded."""

from __future__ import annotations

from typing import Final

from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics
from drkit.topology.topic_configs import PASSIVE

_CREATE: Final = "create"


def create_missing(context: Context, topic: str) -> None:
    """Create a topic on the old primary where it has none of that name, as the new primary's is divided.

    Its settings are those of a passive side; the reverse flow's sync adds the others.

    :raises DrkitError: a cluster does not answer, or refuses
    """
    there = Cluster.connect(context.source_settings)
    if topic in describe_topics(there, [topic]):
        return
    name = context.scope.topics[topic]
    partitions = len(describe_topics(context.target_admin(), [name])[name].partitions)
    with context.effect(StepName.BEGIN, f"{_CREATE} {topic}", partitions=partitions):
        for error in create_topics(there, [TopicPlan(topic, partitions, configs=dict(PASSIVE))]).values():
            raise error
