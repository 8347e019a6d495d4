"""Topics in which something is written all the time: no fetch comes back empty, so no end is ever told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Producer
import pytest

from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.noticeboard import Noticeboard, ensure_board, read_notes, topic_name
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.reading.range_reader import RangeReader
from drkit.kafka.topics import TopicPlan, create_topics, list_offsets
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.model import HeartbeatStatus
from tests.support.detect.any_notes import HARD
from tests.support.flows.beside import SideJobs
from tests.support.flows.compare import read
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually

FLOW = FlowSettings(source="busy", target="b", topics=("orders",))
TOPIC = "busy.heartbeats"


class Writing(SideJobs):
    """A record every few milliseconds, sooner than any reader's fetch comes back with nothing."""

    def __init__(self, cluster: ClusterSettings, topic: str, key: bytes, value: bytes) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        self._record = (topic, value, key)

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            self._producer.produce(*self._record, partition=0)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0


@pytest.fixture(scope="module")
def b(target: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())


@pytest.fixture(scope="module")
def cluster(b: ClusterSettings) -> Cluster:
    return Cluster.connect(b)


@pytest.fixture(scope="module")
def beating(b: ClusterSettings, cluster: Cluster) -> Iterator[TopicPartition]:
    """A topic of heartbeats that come all the time, some of which are there already."""
    assert not create_topics(cluster, [TopicPlan(TOPIC, 1, 1)])
    beat = Heartbeat("busy", "b", 1_700_000_000_000)
    at = TopicPartition(TOPIC, 0)
    with Writing(b, TOPIC, beat.key, beat.value):
        eventually(lambda: list_offsets(cluster, [at], "latest")[at] > 150, 60, "heartbeats")
        yield at


def test_a_topic_that_is_missing_is_not_waited_for(b: ClusterSettings):
    tail = HeartbeatTail(b, FlowSettings(source="quiet", target="b", topics=("orders",)))
    began = monotonic()
    assert tail.read() is None
    assert monotonic() - began < 3
    tail.close()


def test_heartbeats_are_seen_arriving_however_fast_they_come(b: ClusterSettings, beating: TopicPartition):
    arrived: list[Heartbeat] = []
    tail = HeartbeatTail(b, FLOW, arrived=arrived.append)
    assert tail.topic == beating.topic
    tail.follow()
    try:
        eventually(lambda: len(arrived) > 20, 20, "arrivals")
        assert tail.read() is not None
    finally:
        tail.close()


def test_a_heartbeat_from_the_future_does_not_count(b: ClusterSettings, cluster: Cluster, topic_name: str):
    """It would hide for an hour that none comes: a clock that jumped, or a foreign record."""
    flow, now = FLOW.model_copy(update={"source": f"ahead-{topic_name}"}), 1_700_000_000_000
    tail = HeartbeatTail(b, flow, clock=lambda: now)
    assert not create_topics(cluster, [TopicPlan(tail.topic, 1, 1)])
    producer = Producer({"bootstrap.servers": b.bootstrap_servers})
    for at_ms in (now - 60_000, now + 3_600_000):
        beat = Heartbeat(flow.source, "b", at_ms)
        producer.produce(tail.topic, beat.value, beat.key)
        assert producer.flush(30) == 0
    try:
        beat_seen = eventually(lambda: tail.read() if tail.read() and tail.ahead_seconds else None)
        assert (beat_seen.age_seconds, tail.ahead_seconds) == (60.0, 3600.0)
        beat = Heartbeat(flow.source, "b", now + 5_000)
        producer.produce(tail.topic, beat.value, beat.key)
        assert producer.flush(30) == 0
        eventually(
            lambda: tail.read() and not tail.ahead_seconds, what="a heartbeat of a clock that is right"
        )
        assert tail.newest() == HeartbeatStatus(0.0, 0.0)
    finally:
        tail.close()


def test_what_stood_there_before_has_not_arrived(b: ClusterSettings, cluster: Cluster, topic_name: str):
    flow = FLOW.model_copy(update={"source": f"quiet-{topic_name}"})
    arrived: list[Heartbeat] = []
    tail = HeartbeatTail(b, flow, arrived=arrived.append)
    assert not create_topics(cluster, [TopicPlan(tail.topic, 1, 1)])
    beat = Heartbeat(flow.source, "b", 1_700_000_000_000)
    producer = Producer({"bootstrap.servers": b.bootstrap_servers})
    producer.produce(tail.topic, beat.value, beat.key)
    assert producer.flush(30) == 0
    tail.follow()
    try:
        eventually(tail.read, 20, "the record that is already there")
        assert not arrived
        producer.produce(tail.topic, beat.value, beat.key)
        eventually(lambda: len(arrived) == 1, 20, "the one that comes")
    finally:
        producer.flush(30)
        tail.close()


def test_logs_are_read_to_the_end_they_had(b: ClusterSettings, cluster: Cluster, beating: TopicPartition):
    before = list_offsets(cluster, [beating], "latest")[beating]
    with closing(RangeReader(b)) as reader:
        offsets = [message.offset() for message in reader.messages(beating, 0, reader.log_end(beating))]
    assert offsets[:before] == list(range(before))
    assert set(newest_values(cluster, [beating.topic])[beating.topic]) == {Heartbeat("busy", "b", 0).key}
    assert len(read(b, beating.topic)[0]) >= before


def test_the_notes_of_observers_are_read_however_often_they_write(b: ClusterSettings, cluster: Cluster):
    ensure_board(cluster, FLOW)
    out = producer(b)
    for value in HARD[:-1]:  # the last one no broker takes
        put(out, topic_name(FLOW), value, b"vote/bad")
    assert out.flush(30) == 0
    board = Noticeboard(b, FLOW, AwakeClock(), 5.0)
    vote = Vote("o1", "r", 1, 0, Sight.CLEAR)
    with Writing(b, topic_name(FLOW), b"vote/o1", vote.encode()):
        at = TopicPartition(topic_name(FLOW), 0)
        eventually(lambda: list_offsets(cluster, [at], "latest")[at] > 50, 60, "notes")
        board.start()
        try:
            eventually(lambda: board.is_read, 20, "the end")
            eventually(lambda: board._notes.by_key()["vote/o1"].live, 20, "a note that arrived")
            assert board._notes.by_key().keys() == {"vote/o1"}
            assert read_notes(cluster, FLOW).all(Vote)[0].body == vote
        finally:
            board.stop()
