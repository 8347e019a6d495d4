"""A flow of a test's own between two shared clusters, for everything that concerns its topics."""

from __future__ import annotations

from typing import Any
import uuid

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import (
    ConfigValue,
    TopicPlan,
    alter_topic_configs,
    create_topics,
    delete_topics,
    describe_topics,
    topic_configs,
    topic_names,
)
from drkit.local.cluster import LocalCluster
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topic_sync.sync import TopicSync
from tests.support.stored import stored
from tests.support.topic_sync.applied import TopicsApplied
from tests.support.waiting import eventually


class SettledSync(TopicSync):
    """Looks when both clusters know all that was accepted before."""

    def __init__(self, world: World, **more: Any) -> None:
        flow = more.pop("flow", None) or world.flow()
        super().__init__(world.source, world.target, flow, world.state, **more)
        self._world = world

    def look(self) -> TopicSyncResult:
        self._world.settle()
        return super().look()


class World:
    """A flow whose topics carry a unique prefix."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, client: dict[str, str] | None = None
    ) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.source = Cluster.connect(
            ClusterSettings(alias=f"a{self.tag}", bootstrap_servers=source.bootstrap(), client=client or {})
        )
        self.target = Cluster.connect(
            ClusterSettings(alias=f"b{self.tag}", bootstrap_servers=target.bootstrap())
        )
        self._applied = TopicsApplied(self.source), TopicsApplied(self.target)
        ensure_state_topic(self.target, self.flow())
        self.state = StateTopic(self.target.settings, self.source.alias)

    def flow(self, **more) -> FlowSettings:
        return FlowSettings(
            source=self.source.alias, target=self.target.alias, topics=(f"{self.tag}-.*",), buckets=2, **more
        )

    def sync(self, *, effects: bool = True, explained: bool = False, **more) -> TopicSync:
        """A sync of its own; `explained`: a flow in the other direction accounts for the target's records."""
        of_other: dict[str, Any] = {"unexplained": lambda _topics: {}} if explained else {}
        return SettledSync(self, flow=self.flow(**more), effects=effects, **of_other)

    def settle(self) -> None:
        for cluster in self._applied:
            cluster.wait()

    def create(self, cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> str:
        full = f"{self.tag}-{name}"
        plan = TopicPlan(full, partitions, 1, {k.replace("_", "."): v for k, v in configs.items()})
        assert not create_topics(cluster, [plan])
        eventually(
            lambda: (
                len(describe_topics(cluster, [full]).get(full, ((), (), ()))[2]) == partitions
                and full in topic_names(cluster)
            ),
            what=full,
        )
        return full

    def delete(self, cluster: Cluster, full: str) -> None:
        assert not delete_topics(cluster, [full])
        eventually(lambda: full not in topic_names(cluster), what=f"end of {full}")

    def configs(self, cluster: Cluster, full: str) -> dict[str, ConfigValue]:
        self.settle()
        return topic_configs(cluster, [full])[full]

    def set(self, cluster: Cluster, full: str, **configs: str | None) -> None:
        """Change settings of a topic and wait until the brokers know; None: back to the default."""
        wanted = {k.replace("_", "."): v for k, v in configs.items()}
        assert not alter_topic_configs(cluster, {full: wanted})
        self.settle()

    def settings(self, full: str) -> dict[str, str | None]:
        return {k: v.value for k, v in self.configs(self.target, full).items()}

    def event(self, kind: str, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = stored(self.state)[f"event/{kind}/{topic}/-1"]
        return found
