"""A flow with topics of its own, run by jobs of the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import threading
from typing import Any
import uuid

from confluent_kafka import TopicPartition as ConsumerTopicPartition
from confluent_kafka.admin import AdminClient

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.names import map_transactional_id, offset_map_topic, state_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, list_offsets, topic_names
from drkit.kafka.transactions import Transactions
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.reading import read_on
from drkit.offset_map.topic import find_map, new_nonce
from drkit.offset_map.writer import MapWriter
from drkit.replicate.job import FlowJob
from drkit.spark.session import SharedSpark
from tests.support.flows.compare import read
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually

TASKS = 2


class World:
    """A flow with topics of its own, run by jobs of this process."""

    def __init__(self, source: LocalCluster, target: LocalCluster, workshop: SharedSpark) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.clusters = (
            ClusterSettings(alias=f"a{self.tag}", bootstrap_servers=source.bootstrap()),
            ClusterSettings(alias=f"b{self.tag}", bootstrap_servers=target.bootstrap()),
        )
        self.source, self.target = (Cluster.connect(c) for c in self.clusters)
        self.workshop = workshop
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None
        self.failure: list[BaseException] = []

    def topic(self, name: str, partitions: int = 2) -> str:
        full = f"{self.tag}-{name}"
        assert not create_topics(self.source, [TopicPlan(full, partitions, 1)])
        eventually(lambda: full in topic_names(self.source), what=full)
        return full

    def job(self, *, once: bool = False, standby: bool = False, **more: Any) -> FlowJob:
        flow = FlowSettings(
            source=self.source.alias,
            target=self.target.alias,
            topics=(f"{self.tag}-.*",),
            buckets=4,
            **{"refresh_topics_interval_seconds": 0.5, "tasks": TASKS, **more},
        )
        return FlowJob(self.clusters, flow, self.workshop, uuid.uuid4().hex[:8], once=once, standby=standby)

    def start(self, job: FlowJob) -> FlowJob:
        def run() -> None:
            try:
                job.run(self.stop)
            except DrkitError as error:
                self.failure.append(error)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return job

    def end(self) -> None:
        """Stop the running job; how long that takes is measured by the benchmark."""
        assert self.thread is not None
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def count(self, topic: str) -> int:
        if topic not in topic_names(self.target):
            return 0
        return sum(len(p) for p in read(self.clusters[1], topic).values())

    def lengths(self, side: int, topic: str) -> list[int]:
        """End offsets of a topic's partitions: 0 of the source, 1 of the target."""
        cluster = (self.source, self.target)[side]
        partitions = describe_topics(cluster, [topic])[topic].leaders
        ends = list_offsets(cluster, [TopicPartition(topic, p) for p in sorted(partitions)], "latest")
        return [end for _, end in sorted(ends.items())]

    def same_length(self, topic: str) -> bool:
        """Whether all committed records of the source are on the target, and no others."""
        theirs, ours = read(self.clusters[0], topic), read(self.clusters[1], topic)
        return {p: len(seen) for p, seen in theirs.items()} == {p: len(seen) for p, seen in ours.items()}

    def remove(self, topic: str, before: int) -> None:
        """Delete the first records of a topic's first partition on the source, as retention would."""
        cut = ConsumerTopicPartition(topic, 0, before)
        admin = AdminClient(confluent_config(self.clusters[0]))
        admin.delete_records([cut])[cut].result(30)

    def take_bucket(self, bucket: int) -> None:
        """Take a bucket of the map from its task, as another task by mistake."""
        loop, name = EventLoop(), offset_map_topic(self.source.alias)
        cluster = RawCluster(loop, self.clusters[1], "another")
        held = MapBucket(bucket, name)
        transactions = Transactions(
            cluster, map_transactional_id(self.source.alias, self.target.alias, bucket)
        )

        async def find(_: bool) -> TopicMetadata:  # noqa: FBT001  as the writer asks
            return await find_map(cluster, name)

        async def take() -> None:
            await cluster.connected()
            writer = MapWriter(transactions, held, new_nonce(), find, lambda: False)
            await writer.take()
            topic = await find_map(cluster, name)
            await writer.begin(lambda: read_on(cluster, topic, held))

        try:
            loop.run(take)
        finally:
            cluster.close()
            loop.close()

    @contextmanager
    def open_transaction(self, ready: Callable[[], object] = lambda: None) -> Iterator[None]:
        """A transaction that is open in the flow's state topic, as the lease's are for moments.

        :param ready: called right before it is begun
        """
        out = producer(self.clusters[1], transactional_id=f"{self.tag}-open")
        out.init_transactions(30)
        ready()
        out.begin_transaction()
        put(out, state_topic(self.source.alias), b"{}", b"later/kind")
        out.flush(30)
        yield
        out.abort_transaction(30)

    def arrives(self, topic: str, count: int) -> None:
        eventually(lambda: self.failure or self.count(topic) >= count, what=f"{count} records in {topic}")
        assert not self.failure
        self.equal(topic)

    def equal(self, topic: str) -> None:
        theirs, ours = read(self.clusters[0], topic), read(self.clusters[1], topic)
        assert {p: [s.content for s in seen] for p, seen in ours.items()} == {
            p: [s.content for s in seen] for p, seen in theirs.items()
        }
