"""What a cluster has: topics with ids and settings, groups with states and offsets."""

from __future__ import annotations

from typing import Any

from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups
from drkit.kafka.topics import describe_topics, topic_configs, topic_names
from tests.support.flows.clusters import Clusters


async def _groups(raw: Any) -> dict[str, tuple[Any, ...]]:
    listed = await Groups(raw).listed()
    committed = await Groups(raw).committed(listed)
    return {g: (x.state, sorted((committed[g].value or {}).items())) for g, x in listed.items()}


def inventory(world: Clusters) -> dict[str, dict[str, Any]]:
    """Return all topics and groups of both clusters, by alias."""
    found: dict[str, dict[str, Any]] = {}
    for side in (world.source, world.target):
        cluster = Cluster.connect(side)
        names = [n for n in topic_names(cluster) if not n.startswith("__")]
        configs = topic_configs(cluster, names)
        found[side.alias] = {
            "topics": {
                n: (t.topic_id, len(t.leaders), {k: c.value for k, c in configs[n].items()})
                for n, t in describe_topics(cluster, names).items()
            },
            "groups": world.ask(side, _groups),
        }
    return found
