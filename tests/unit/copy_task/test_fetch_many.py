"""What a fetcher of many partitions asks for: only those that have moved, and nothing of those it may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.context import QUEUE_LIMIT_BYTES
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.source.fetching import Fetcher
from drkit.copy_task.source.health import SourceHealth

NODE, LIMIT = 1, 1000
WAIT_MS = 500


def partition(number: int) -> PartitionCopy:
    topic, source, target = f"t{number}", str(UUID(int=number + 1)), str(UUID(int=-number % (1 << 128)))
    p = PartitionCopy(PartitionAssignment(topic, source, topic, target, 0, 0))
    p.begin(upstream=0, downstream=0, copied_end=0, sequence=0, delta=None, leader_epoch=-1)
    p.leader = NODE
    return p


class World:
    """A fetcher in a session with some partitions."""

    def __init__(self, count: int) -> None:
        self.partitions = [partition(n) for n in range(count)]
        self.health = SourceHealth(0.5, set())
        flow = SimpleNamespace(
            fetch_partition_max_bytes=LIMIT, fetch_max_bytes=LIMIT, fetch_max_wait_ms=WAIT_MS
        )
        task: Any = SimpleNamespace(
            flow=flow, partitions=self.partitions, seconds_left=100.0,
            throttle=SimpleNamespace(most=lambda size: size),
        )  # fmt: skip
        source: Any = SimpleNamespace(health=self.health)
        self.fetcher = Fetcher(task, NODE, source)

    def request(self) -> Any:
        return self.fetcher._request(self.fetcher._requested_positions(0.0))

    def asked(self) -> list[str]:
        return [t.topic for t in self.request().topics]


def test_a_session_gets_only_what_has_moved():
    world = World(100)
    assert len(world.asked()) == 100
    assert world.asked() == []
    world.partitions[7].fetch_position = 5
    world.partitions[8].generation += 1
    world.partitions[9].leader_epoch += 1
    assert world.asked() == ["t7", "t8", "t9"]
    assert world.asked() == []


def test_what_is_not_wanted_any_more_is_forgotten_and_asked_for_again_later():
    world = World(3)
    world.asked()
    world.partitions[1].leader = NODE + 1
    world.partitions[2].stop("test")
    found = world.request()
    assert sorted(t.topic for t in found.forgotten_topics_data) == ["t1", "t2"]
    assert not found.topics
    world.partitions[1].leader = NODE
    assert world.asked() == ["t1"]


def test_a_partition_in_trouble_is_left_out_for_as_long_as_it_may_not_be_fetched():
    world = World(2)
    world.health.failed(world.partitions[0], "test", 0.0, hold=True)
    assert world.asked() == ["t1"]
    world.health.settled(world.partitions[0], "")
    assert world.asked() == ["t0"]


def test_while_one_is_held_back_the_source_does_not_wait_for_the_others():
    world = World(2)
    assert world.request().max_wait_ms == WAIT_MS
    world.partitions[0].queued_bytes = 2 * LIMIT
    found = world.request()
    assert found.max_wait_ms < WAIT_MS
    assert [t.topic for t in found.forgotten_topics_data] == ["t0"]
    world.partitions[0].queued_bytes = 0
    assert world.request().max_wait_ms == WAIT_MS


def test_nothing_is_asked_for_while_too_much_is_queued():
    world = World(2)
    world.partitions[0].queued_bytes = QUEUE_LIMIT_BYTES + 1
    assert not world.fetcher._requested_positions(0.0)
