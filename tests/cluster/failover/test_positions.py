"""What groups have committed, as a failover learns it: of some groups alone, and from checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from confluent_kafka import Producer
import pytest

from drkit.failover.groups.offsets import Positions, committed_in, marked
from drkit.flow_state.copied_topics import CopiedTopics, known_of
from drkit.flow_state.records import GenerationRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import RawCluster
from drkit.kafka.topics import delete_topics
from drkit.mm2_topics.checkpoint_topic import CheckpointTail, CheckpointTopic, ensure_checkpoint_topic
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from drkit.offsets.mm2_records import Checkpoint
from tests.support.failover.world import World
from tests.support.stored import flow_state
from tests.support.waiting import eventually

IDS = {"source_id": str(UUID(int=0)), "target_id": str(UUID(int=1))}


def known(world: World) -> CopiedTopics:
    topic = world.name("orders")
    return known_of(flow_state({GenerationRecord.key(topic): {"target": topic, **IDS}}))


def offsets_of(found: Positions) -> dict[str, dict[TopicPartition, int]]:
    return {g: {at: s.offset for at, s in p.items()} for g, p in found.items()}


async def _alter(raw: RawCluster, offsets: dict[str, dict[TopicPartition, Committed]]) -> Any:
    return await Groups(raw).alter(offsets)


@pytest.mark.wide
def test_only_the_groups_that_are_named_are_asked_about(world: World) -> None:
    flow = world.settings.flows[0]
    orders, other = world.name("orders"), world.name("other")
    groups = [world.name(f"g{i}") for i in range(3)]
    for topic in (orders, other):
        world.create(world.source, topic, 2, {})
        world.create(world.target, topic, 2, {})
    for number, group in enumerate(groups):
        offsets = {TopicPartition(orders, 0): number, TopicPartition(other, 1): 7}
        world.commit(world.source, group, offsets)
        mark = Committed(number, OffsetMark(world.source.alias, number + 10, number, 0).text())
        kept = {group: {TopicPartition(orders, 0): mark}}
        assert not world.ask(world.target, _alter, kept)[group].error
    stranger = f"not-{world.name('g')}"
    world.commit(world.source, stranger, {TopicPartition(orders, 0): 1})

    def asked(on: str, *names: list[str] | None) -> dict[str, dict[TopicPartition, int]]:
        copied = known(world)
        if on == "source":
            return offsets_of(world.ask(world.source, committed_in, flow, copied.topics, *names))
        return offsets_of(world.ask(world.target, marked, flow, copied, *names))

    at = TopicPartition(orders, 0)
    assert asked("source") == {g: {at: n} for n, g in enumerate(groups)}
    assert asked("source", groups[1:]) == {g: {at: n} for n, g in enumerate(groups) if n}
    assert asked("target") == {g: {at: n + 10} for n, g in enumerate(groups)}
    assert asked("target", groups[:1]) == {groups[0]: {at: 10}}
    assert asked("source", [world.name("nobody"), stranger]) == {}


class Log:
    """A topic with checkpoints, and a reader of it."""

    def __init__(self, world: World, name: str) -> None:
        self.name, self._world, self._target = name, world, world.target
        self.cluster = Cluster.connect(world.target)
        self.reader = CheckpointTail(world.target, name)
        self.make()

    def make(self) -> None:
        ensure_checkpoint_topic(self.cluster, self.name)
        self._topic = CheckpointTopic(self._target, self.name)

    def write(self, *checkpoints: Checkpoint) -> None:
        self._topic.write(checkpoints)

    def put(self, key: bytes, value: bytes | None) -> None:
        out = Producer({"bootstrap.servers": self._target.bootstrap_servers, "log_level": 0})
        out.produce(self.name, value, key, partition=0)
        assert out.flush(20) == 0

    def read(self, groups: list[str] | None = None) -> dict[str, int]:
        topic = self._world.topic(self._target, self.name)
        self.reader.read(topic.topic_id if topic.leaders else None)
        return {
            group: seen.upstream for group, found in self.reader.of(groups).items() for seen in found.values()
        }


@pytest.fixture
def log(world: World) -> Iterator[Log]:
    made = Log(world, world.name("a.checkpoints.internal"))
    yield made
    delete_topics(made.cluster, [made.name])


def checkpoint(group: str, upstream: int) -> Checkpoint:
    return Checkpoint(group, "orders", 0, upstream, upstream)


@pytest.mark.wide
def test_checkpoints_are_read_on_and_the_newest_readable_one_of_a_key_counts(log: Log, world: World) -> None:
    missing = CheckpointTail(world.target, world.name("no-such-topic"))
    missing.read(None)
    assert missing.newest == {}
    assert log.read() == {}
    log.write(checkpoint("g1", 5), checkpoint("g2", 6), checkpoint("g1", 7))
    assert log.read() == {"g1": 7, "g2": 6}
    assert log.read(["g2", "g3"]) == {"g2": 6}
    end = world.offsets(world.target, log.name)[0]
    # What was read is not read again: it may be gone by now.
    world.configure(world.target, log.name, "cleanup.policy", "compact,delete")
    world.delete_records(log.name, 0, end, world.target)
    log.put(checkpoint("g1", 0).key, b"no checkpoint")
    log.put(b"\x00\x09short", b"neither")
    assert log.read() == {"g1": 7, "g2": 6}, "what cannot be read hides nothing"
    log.write(checkpoint("g3", 8))
    log.put(checkpoint("g2", 0).key, None)
    assert log.read() == {"g1": 7, "g3": 8}
    assert log.read(["g1"]) == {"g1": 7}


@pytest.mark.wide
def test_checkpoints_of_a_topic_that_was_created_again(log: Log, world: World) -> None:
    log.write(checkpoint("g1", 5), checkpoint("g2", 6))
    assert log.read() == {"g1": 5, "g2": 6}
    world.delete(world.target, log.name)
    eventually(lambda: log.read() == {}, what="none are left")
    log.make()
    log.write(checkpoint("g2", 1))
    assert log.read() == {"g2": 1}
