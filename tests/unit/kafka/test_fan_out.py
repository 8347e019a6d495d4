"""One question to several brokers: all at the same time, and a silent one costs only its own answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import PartitionLeader, TopicMetadata, ask_leaders, by_leader, grouped
from drkit.model import TopicPartition
from tests.support.errors import made

LEADERS = {0: PartitionLeader(1, 5), 1: PartitionLeader(-1, 5), 2: PartitionLeader(2, 5)}
TOPICS = {"t": TopicMetadata(0, UUID(int=1), LEADERS, "t")}
AT = [TopicPartition("t", n) for n in range(4)]


@pytest.fixture
def cluster() -> Iterator[RawCluster]:
    """A cluster to which no request is sent."""
    settings = ClusterSettings(alias="standby", bootstrap_servers="127.0.0.1:1")
    with closing(EventLoop()) as loop, closing(RawCluster(loop, settings, "test")) as made_:
        yield made_


def test_a_silent_broker_is_named_and_the_others_answer(cluster: RawCluster):
    asked: list[int] = []

    async def ask(node: int) -> int:
        asked.append(node)
        await cluster.loop.sleep(0.02)
        assert sorted(asked) == [1, 2, 3], "all were asked before one answered"
        if node == 2:
            raise RawError("it is gone")
        return 10 * node

    answers, silent = cluster.loop.run(cluster.ask_each, [3, 1, 2], ask)
    assert answers == {1: 10, 3: 30}
    assert {node: str(error) for node, error in silent.items()} == {2: "it is gone"}


def test_another_error_is_raised(cluster: RawCluster):
    async def ask(node: int) -> int:
        raise made(Failed, f"broker {node} refuses")

    with pytest.raises(Failed):
        cluster.loop.run(cluster.ask_each, [1], ask)


def test_each_leader_is_asked_about_its_partitions(cluster: RawCluster):
    assert by_leader(TOPICS, AT) == {1: [AT[0]], 2: [AT[2]]}, "one has no leader, one does not exist"

    async def ask(node: int, some: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(some, node)

    assert cluster.loop.run(ask_leaders, cluster, TOPICS, AT, ask) == {AT[0]: 1, AT[2]: 2}


def test_a_request_has_its_partitions_by_topic():
    some = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    assert grouped(some) == [("a", [2]), ("b", [1, 0])]
