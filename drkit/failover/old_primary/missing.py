"""Creates topics and partitions that the old primary no longer has, or never had, before they are seeded."""

from __future__ import annotations

from typing import Final

from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_partitions, create_topics, describe_topics
from drkit.topology.topic_configs import PASSIVE

_CREATE: Final = "create"
_GROW: Final = "grow"


def create_missing(context: Context, topic: str) -> None:
    """Give the old primary a topic where it has none of that name, and the partitions that it has not.

    It is divided as the new primary's: somebody may have deleted it, or recreated it with fewer partitions.
    The settings of a new one are those of a passive side; the reverse flow's sync adds the others.

    :raises DrkitError: a cluster does not answer, or refuses
    """
    there = Cluster.connect(context.source_settings)
    known = describe_topics(there, [topic])
    name = context.scope.topics[topic]
    partitions = len(describe_topics(context.target_admin(), [name])[name].leaders)
    if topic not in known:
        with context.effect(StepName.BEGIN, f"{_CREATE} {topic}", partitions=partitions):
            for error in create_topics(there, [TopicPlan(topic, partitions, configs=dict(PASSIVE))]).values():
                raise error
    elif len(known[topic].leaders) < partitions:
        with context.effect(StepName.BEGIN, f"{_GROW} {topic}", partitions=partitions):
            for error in create_partitions(there, {topic: partitions}).values():
                raise error
