"""Asking and changing the two clusters of a test, also while their brokers come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import time
from typing import Any

from confluent_kafka import TopicPartition as ConsumerTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    ProducerState,
    TopicMetadata,
    describe_producers,
    list_offsets,
    metadata,
)
from drkit.model import TopicPartition
from tests.support.waiting import eventually


class Clusters:
    """A source and a target cluster."""

    def __init__(self, source: ClusterSettings, target: ClusterSettings, replicas: int) -> None:
        self.source, self.target, self.replicas = source, target, replicas
        self._admins = {
            c.alias: AdminClient({**confluent_config(c), "log_level": 0}) for c in (source, target)
        }
        self._loop = EventLoop()
        self._raw = {c.alias: RawCluster(self._loop, c, "test") for c in (source, target)}

    # -- asking the clusters ----------------------------------------------------------------------

    def ask(self, cluster: ClusterSettings, question: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Ask one of the clusters, again while brokers come and go."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.ask_once(cluster, question, *args, **more)
            except RawError:
                assert time.monotonic() < deadline, f"{cluster.alias} does not answer"

    def ask_once(
        self, cluster: ClusterSettings, question: Callable[..., Any], *args: Any, **more: Any
    ) -> Any:
        """Ask one of the clusters; a lost connection is closed, so that the next question finds another."""
        raw = self._raw[cluster.alias]

        async def go() -> Any:
            await raw.connected()
            return await question(raw, *args, **more)

        try:
            return self._loop.run(go)
        except RawError:
            raw.close()
            self._raw[cluster.alias] = RawCluster(self._loop, cluster, "test")
            raise

    def topic(self, cluster: ClusterSettings, name: str) -> TopicMetadata:
        found: TopicMetadata = self.ask(cluster, metadata, [name])[name]
        return found

    def offsets(
        self, cluster: ClusterSettings, topic: str, when: int = LATEST, *, committed: bool = True
    ) -> dict[int, int]:
        """Offsets by partition, asked until every partition has a leader that answers."""

        def once() -> dict[int, int] | None:
            out = {}
            for partition, leader in self.topic(cluster, topic).leaders.items():
                tp = TopicPartition(topic, partition)
                if leader.node < 0:
                    return None
                try:
                    answer = self.ask_once(
                        cluster, list_offsets, leader.node, {tp: when}, committed=committed
                    )[tp]
                except RawError:
                    return None
                if answer.error:
                    return None
                out[partition] = answer.offset
            return out

        return eventually(once, what=f"offsets of {topic}")

    def grown(self, topic: str, records: int, *, committed: bool = True, seconds: float = 60.0) -> None:
        """Wait until the target holds some more offsets than now."""
        before = sum(self.offsets(self.target, topic, committed=committed).values())
        eventually(
            lambda: sum(self.offsets(self.target, topic, committed=committed).values()) >= before + records,
            seconds,
            f"{topic}: {records} more",
        )

    def starts(self, cluster: ClusterSettings, topic: str) -> dict[int, int]:
        return self.offsets(cluster, topic, EARLIEST)

    def producers(self, topic: str, partition: int = 0) -> dict[int, ProducerState]:
        """What the target's leader remembers of producers."""
        node = self.topic(self.target, topic).leaders[partition].node
        tp = TopicPartition(topic, partition)
        known: dict[int, ProducerState] = self.ask(self.target, describe_producers, node, [tp])[tp][1]
        return known

    # -- topics -------------------------------------------------------------------------------------

    def create(
        self,
        cluster: ClusterSettings,
        name: str,
        partitions: int,
        config: Mapping[str, str],
        replicas: int = 0,
    ) -> None:
        """Create a topic and wait until every partition has a leader."""
        new = NewTopic(name, partitions, replicas or self.replicas, config=dict(config))
        self._admins[cluster.alias].create_topics([new])[name].result(30)
        eventually(
            lambda: (
                len(t := self.topic(cluster, name).leaders) == partitions
                and all(leader.node >= 0 for leader in t.values())
            ),
            what=f"leaders of {name}",
        )

    def delete(self, cluster: ClusterSettings, name: str) -> None:
        self._admins[cluster.alias].delete_topics([name])[name].result(30)
        eventually(lambda: self.topic(cluster, name).error == 3, what=f"end of {name}")

    def configure(self, cluster: ClusterSettings, topic: str, name: str, value: str) -> None:
        """Change one configuration of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admins[cluster.alias].incremental_alter_configs([resource])[resource].result(30)

    def delete_records(
        self, topic: str, partition: int, before: int, cluster: ClusterSettings | None = None
    ) -> None:
        """Trim a partition, on the source by default, as retention would."""
        cut = ConsumerTopicPartition(topic, partition, before)
        self._admins[(cluster or self.source).alias].delete_records([cut])[cut].result(30)

    def grow(self, cluster: ClusterSettings, name: str, partitions: int) -> None:
        self._admins[cluster.alias].create_partitions([NewPartitions(name, partitions)])[name].result(30)
        eventually(lambda: len(self.topic(cluster, name).leaders) == partitions)

    def close(self) -> None:
        for raw in self._raw.values():
            raw.close()
        self._loop.close()
