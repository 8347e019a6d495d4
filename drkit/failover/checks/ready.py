"""Whether the target's topics can take over: leaders, in-sync replicas, all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drkit.failover.core.context import Context
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import ConfigValue, describe_topics, topic_configs
from drkit.status.model import PartitionStatus
from drkit.topology.topic_configs import MIN_INSYNC_REPLICAS

_ENOUGH: Final = 20
"""Maximum number of reasons returned."""


def unready_topics(context: Context, partitions: Iterable[PartitionStatus]) -> list[str]:
    """Return why the scope's topics cannot take over; empty when they can.

    :raises DrkitError: the target does not describe its topics
    """
    names = set(context.scope.topics.values())
    admin = context.target_admin()
    topics = describe_topics(admin, names)
    configs = topic_configs(admin, topics)
    found = list(_reasons(names, topics, configs, partitions))
    return found[:_ENOUGH]


def _reasons(
    names: set[str],
    topics: Mapping[str, TopicMetadata],
    configs: Mapping[str, Mapping[str, ConfigValue]],
    partitions: Iterable[PartitionStatus],
) -> Iterator[str]:
    for name in sorted(names - topics.keys()):
        yield f"{name} does not exist on the target"
    for name, topic in sorted(topics.items()):
        setting = configs.get(name, {}).get(MIN_INSYNC_REPLICAS)
        needed = int(setting.value) if setting is not None and setting.value else 1
        for number, p in sorted(topic.leaders.items()):
            if p.node < 0:
                yield f"{name}-{number} has no leader on the target"
            elif len(p.in_sync) < min(needed, len(p.replicas)):
                yield f"{name}-{number} has {len(p.in_sync)} replicas in sync on the target, needs {needed}"
    for seen in partitions:
        copy = topics.get(seen.target_topic)
        if copy is not None and seen.partition not in copy.leaders:
            yield f"{seen.target_topic} has no partition {seen.partition} on the target, the source has"
