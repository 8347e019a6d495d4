"""Kafka's Java clients of MirrorMaker 2 on topics that drkit wrote, after a copy with an end."""

from __future__ import annotations

from collections.abc import Iterator
import threading
from typing import Any
import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConsumerPartition
from py4j.protocol import Py4JJavaError
import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.mm2_topics.heartbeats import TOPIC as HEARTBEATS
from drkit.mm2_topics.heartbeats import HeartbeatEmitter
from drkit.offsets.mm2_records import Checkpoint, ForgottenCheckpoint
from drkit.replicate.job import FlowJob
from drkit.replicate.once import groups_left
from drkit.spark.session import SharedSpark, spark_session
from tests.support.circles import in_soak
from tests.support.flows.compare import Seen, read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill, fill_transactions
from tests.support.mm2.mm2_java import KafkaJava, client_properties, task_properties
from tests.support.waiting import eventually

MIDDLE = 20
"""How many records the group had read."""


@pytest.fixture(scope="module")
def workshop() -> Iterator[SharedSpark]:
    with spark_session("drkit tests", 1) as made:
        yield made


class World:
    """A topic, heartbeats and two groups on the source, and a flow that copies them to an end."""

    def __init__(
        self, naming: str, source: LocalCluster, target: LocalCluster, workshop: SharedSpark
    ) -> None:
        self.tag, self.workshop = uuid.uuid4().hex[:8], workshop
        self.source = ClusterSettings(alias=f"a{self.tag}", bootstrap_servers=source.bootstrap())
        self.target = ClusterSettings(alias=f"b{self.tag}", bootstrap_servers=target.bootstrap())
        self.topic, self.group, self.other = f"{self.tag}-orders", f"g-{self.tag}", f"left-{self.tag}"
        self.flow = FlowSettings(
            source=self.source.alias, target=self.target.alias, naming=naming, topics=(self.topic,),
            groups=("g-.*",), tasks=1, buckets=2, offset_lag_max=5,
        )  # fmt: skip
        self.copy = self.flow.naming_policy.downstream(self.topic)
        assert not create_topics(Cluster.connect(self.source), [TopicPlan(self.topic, 1, 1)])
        eventually(lambda: self.topic in topic_names(Cluster.connect(self.source)), what=self.topic)
        fill_transactions(self.source, [self.topic], 40, most=6)
        fill(self.source, self.topic, 30, first=1000)
        self.beat()

    def beat(self) -> None:
        emitter = HeartbeatEmitter(self.source, self.flow)
        emitter.start()
        eventually(lambda: HEARTBEATS in topic_names(Cluster.connect(self.source)), what="heartbeats")
        eventually(lambda: read(self.source, HEARTBEATS)[0], what="a heartbeat")
        emitter.stop()

    def committed(self, group: str) -> Seen:
        """Commit on the source the offset after some records; returns the next record to read."""
        following = read(self.source, self.topic)[0][MIDDLE]
        consumer = Consumer({"bootstrap.servers": self.source.bootstrap_servers, "group.id": group})
        at = ConsumerPartition(self.topic, 0, following.offset)
        (stored,) = consumer.commit(offsets=[at], asynchronous=False) or [at]
        assert stored.error is None
        consumer.close()
        return following

    def once(self) -> FlowJob:
        job = FlowJob((self.source, self.target), self.flow, self.workshop, self.tag, once=True)
        job.run(threading.Event())
        assert job.all_copied()
        return job


@pytest.fixture(params=[in_soak("identity"), "prefix"])
def world(
    request: pytest.FixtureRequest, source: LocalCluster, target: LocalCluster, workshop: SharedSpark
) -> World:
    return World(request.param, source, target, workshop)


def first_read(java: KafkaJava, world: World, offset: Any = None, group: str = "") -> bytes:
    """The first record of the copy that Kafka's own consumer reads, from an offset or as a group."""
    kafka = java.jvm.org.apache.kafka
    form = kafka.common.serialization.ByteArrayDeserializer()
    properties = {"bootstrap.servers": world.target.bootstrap_servers, "auto.offset.reset": "none"}
    if group:
        properties |= {"group.id": group, "enable.auto.commit": "false"}
    consumer = kafka.clients.consumer.KafkaConsumer(properties, form, form)
    try:
        if group:
            consumer.subscribe([world.copy])
        else:
            at = java.partition(world.copy, 0)
            consumer.assign([at])
            consumer.seek(at, offset)
        records = eventually(lambda: r if (r := consumer.poll(java.seconds(1))).count() else None)
        return bytes(records.iterator().next().key())
    finally:
        consumer.close()


@pytest.mark.wide
def test_kafkas_clients_find_clusters_topics_and_positions(java: KafkaJava, world: World) -> None:
    """P16: after `--once` the group's next record is the one Kafka's own clients read."""
    following = world.committed(world.group)
    job = world.once()
    assert job.groups["verdicts"] == {"UNCHANGED": 1}
    assert not groups_left(job.groups)

    utils, properties = java.mirror("RemoteClusterUtils"), client_properties(world.target, world.flow)
    alias = world.source.alias
    assert alias in set(utils.upstreamClusters(properties))
    assert utils.replicationHops(properties, alias) == 1
    assert utils.replicationHops(properties, "nowhere") == -1
    assert f"{alias}.{HEARTBEATS}" in set(utils.heartbeatTopics(properties))
    assert f"{alias}.checkpoints.internal" in set(utils.checkpointTopics(properties))
    client = java.mirror("MirrorClient")(properties)
    assert world.copy in set(client.remoteTopics(alias))
    client.close()

    found = utils.translateOffsets(properties, alias, world.group, java.seconds(30))
    ((at, place),) = found.items()
    assert (at.topic(), at.partition()) == (world.copy, 0)
    assert first_read(java, world, place) == following.key
    assert first_read(java, world, group=world.group) == following.key


def test_kafkas_clients_skip_checkpoints_that_were_taken_back(java: KafkaJava, flow: Flow) -> None:
    """Also of the group that they are asked about; a null would stop them for every group."""
    name = flow.settings.mm2_topics.checkpoints(flow.source.alias)
    flow.create(flow.target, name, 1, {"cleanup.policy": "compact"})
    topic = CheckpointTopic(flow.target, name)
    topic.write([Checkpoint("stays", "orders", 0, 7, 5), Checkpoint("gone", "orders", 0, 9, 6)])
    topic.write([ForgottenCheckpoint("gone", "orders", 0)])
    utils, properties = java.mirror("RemoteClusterUtils"), client_properties(flow.target, flow.settings)
    found = utils.translateOffsets(properties, flow.source.alias, "stays", java.seconds(30))
    assert [place.offset() for place in found.values()] == [5]

    out = Producer({"bootstrap.servers": flow.target.bootstrap_servers})
    out.produce(name, None, ForgottenCheckpoint("gone", "orders", 0).key, partition=0)
    assert out.flush(20) == 0
    with pytest.raises(Py4JJavaError, match="NullPointerException"):
        utils.translateOffsets(properties, flow.source.alias, "stays", java.seconds(30))


@pytest.mark.wide
def test_a_second_copy_with_an_end_moves_what_went_on(java: KafkaJava, world: World) -> None:
    """P14: nothing was left to copy, and the groups have read on meanwhile."""
    world.once()
    following = world.committed(world.group)
    job = world.once()
    assert job.progress is not None
    assert job.progress.totals.records == 0
    assert job.groups["verdicts"] == {"UNCHANGED": 1}
    assert first_read(java, world, group=world.group) == following.key


@pytest.mark.wide
def test_mm2s_checkpoint_task_goes_by_our_syncs(java: KafkaJava, world: World) -> None:
    """The real task, for a group that drkit leaves alone: its checkpoint leads to no later record."""
    following = world.committed(world.other)
    world.once()
    theirs = read(world.target, world.copy)[0]
    exact = next(s.offset for s in theirs if s.key == following.key)
    task = java.mirror("MirrorCheckpointTask")()
    task.start(task_properties(world.source, world.target, world.flow, world.other))
    try:
        (record,) = eventually(task.poll, what="a checkpoint of the task")
        found = Checkpoint.decode(bytes(record.key()), bytes(record.value()))
    finally:
        task.stop()
    assert (found.group, found.topic, found.upstream) == (world.other, world.copy, following.offset)
    assert found.downstream <= exact
    assert record.topic() == f"{world.source.alias}.checkpoints.internal"
