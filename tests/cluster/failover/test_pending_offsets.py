"""A transaction that only sent offsets holds a group's position back, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import time
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConsumerPartition
import pytest

from drkit.config import ClusterSettings, Settings
from drkit.errors import Refused
from drkit.failover.groups.waits import kept_in, settle
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failover.world import World
from tests.support.kafka.commits import commit


@pytest.mark.parametrize(("group", "java"), [("a", 97), ("abc", 96354), ("orders", -1008770331), ("ä", 228)])
def test_where_a_group_is_kept(group: str, java: int) -> None:
    """As `Utils.abs(groupId.hashCode()) % n`: a negative hash loses its sign, not a bit."""
    assert kept_in(group, 50) == abs(java) % 50


class Half:
    """An application that has sent offsets of its group to a transaction, and nothing else."""

    def __init__(self, cluster: LocalCluster, group: str, topic: str) -> None:
        self.group, self.name, self.topic = group, f"tx-{group}", topic
        base = {"bootstrap.servers": cluster.bootstrap()}
        self._consumer = Consumer(
            {**base, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self._consumer.assign([ConsumerPartition(topic, 0, 0)])
        commit(self._consumer, ConsumerPartition(topic, 0, 3))
        self.producer = Producer({**base, "transactional.id": self.name, "transaction.timeout.ms": 600_000})
        self.producer.init_transactions(30)
        self.producer.begin_transaction()
        offsets = [ConsumerPartition(topic, 0, 7)]
        self.producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), 30)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def half(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Half]]:
    world = World(source, target, tmp_path_factory.mktemp("journal"))
    topic = world.name("orders")
    world.create(world.source, topic, 1, {})
    made: list[Half] = []

    def make(name: str) -> Half:
        made.append(Half(source, world.name(name), topic))
        return made[-1]

    yield make
    for one in made:
        one.close()
    world.close()


@pytest.fixture
def asked(source: LocalCluster) -> Iterator[Callable[..., Any]]:
    """Runs `settle` on the primary, as TRANSLATE does."""
    loop = EventLoop()
    raw = RawCluster(loop, ClusterSettings(alias="a", bootstrap_servers=source.bootstrap()), "test")
    loop.run(raw.connect)

    def ask(group: str, pauses: Callable[[], None] = lambda: None, **fence: Any) -> tuple[list[str], int]:
        def pause(seconds: float) -> None:
            pauses()
            loop.run(loop.sleep, seconds)

        context: Any = SimpleNamespace(
            settings=Settings.model_validate({"failover": {"fence": fence}}), run=loop.run, pause=pause,
            clock=time.monotonic, flow=SimpleNamespace(name="a->b"),
        )  # fmt: skip
        notes = settle(context, raw, [group])
        [found] = (loop.run(Groups(raw).committed, [group])[group].value or {}).values()
        return notes, found.offset

    yield ask
    raw.close()
    loop.close()


def test_it_is_waited_for(half: Callable[[str], Half], asked: Callable[..., Any]) -> None:
    one = half("waits")
    ends = iter([one.producer.commit_transaction])

    def end() -> None:
        for end_it in ends:
            end_it(30)

    assert asked(one.group, end, transaction_wait_seconds=30) == ([], 7), "its commit is not lost"


def test_it_is_named_or_aborted(half: Callable[[str], Half], asked: Callable[..., Any]) -> None:
    one = half("stays")
    with pytest.raises(Refused, check=coded("pending_offsets")) as caught:
        asked(one.group, transaction_wait_seconds=0, open_transactions="hold")
    assert "1 group" in str(caught.value)
    assert caught.value.evidence == f"group {one.group}: {one.name}"
    notes, offset = asked(one.group, transaction_wait_seconds=0)
    assert offset == 3
    assert one.name in notes[0]
    with pytest.raises(KafkaException):
        one.producer.commit_transaction(30)
