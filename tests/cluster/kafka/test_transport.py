"""Large answers arrive whole, whatever the pieces in which the network hands them over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
import threading
from typing import Any, NamedTuple

from confluent_kafka import Producer
from kafka.protocol.consumer.fetch import FetchRequest
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import metadata
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from drkit.local.link import Link
from drkit.wire import decode, split
from tests.support.shared_clusters import ModuleClusters

RECORDS = 40
RECORD_BYTES = 100_000
"""All of them in one answer: eight times what is worth receiving directly."""
TOPIC = "large-answers"
PIECES_PER_SECOND = 8_000_000


class Linked(NamedTuple):
    cluster: LocalCluster
    link: Link
    values: list[bytes]


@pytest.fixture(scope="module")
def linked(module_cluster: ModuleClusters) -> Linked:
    cluster = module_cluster("linked", linked=("CLIENT",))
    settings = ClusterSettings(alias="linked", bootstrap_servers=cluster.bootstrap())
    assert not create_topics(Cluster.connect(settings), [TopicPlan(TOPIC, 1, 1)])
    values = [os.urandom(RECORD_BYTES) for _ in range(RECORDS)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap()})
    for value in values:
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(30) == 0
    return Linked(cluster, cluster.link("CLIENT"), values)


@pytest.fixture
def fetch(linked: Linked) -> Iterator[Callable[[], list[bytes]]]:
    loop = EventLoop()
    settings = ClusterSettings(alias="linked", bootstrap_servers=linked.cluster.bootstrap())
    raw = RawCluster(loop, settings, "test")

    async def ask() -> list[bytes]:
        await raw.connected()
        topic = (await metadata(raw, [TOPIC]))[TOPIC]
        answer: Any = await raw.send(_everything(topic.topic_id), topic.leaders[0].node, timeout_ms=20_000)
        records = answer.responses[0].partitions[0].records
        return [record.value or b"" for header, batch in split(records) for record in decode(header, batch)]

    def run() -> list[bytes]:
        found: list[bytes] = loop.run(ask)
        return found

    linked.link.restore()
    yield run
    raw.close()
    loop.close()


def _everything(topic_id: Any) -> FetchRequest:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 30,
    )
    return FetchRequest(
        max_wait_ms=1000,
        min_bytes=RECORDS * RECORD_BYTES,
        max_bytes=1 << 30,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )


def test_an_answer_arrives_whole_at_once_and_in_small_pieces(
    linked: Linked, fetch: Callable[[], list[bytes]]
) -> None:
    assert fetch() == linked.values
    linked.link.slow(bytes_per_second=PIECES_PER_SECOND)
    assert fetch() == linked.values


def test_an_answer_that_breaks_off_is_an_error_and_the_next_one_is_whole(
    linked: Linked, fetch: Callable[[], list[bytes]]
) -> None:
    assert fetch() == linked.values
    linked.link.slow(bytes_per_second=PIECES_PER_SECOND)
    # The whole answer takes half a second at that rate: the cut comes while its frame is being filled.
    cut = threading.Timer(0.2, linked.link.cut)
    cut.start()
    with pytest.raises(RawError):
        fetch()
    cut.join()
    linked.link.restore()
    assert fetch() == linked.values
