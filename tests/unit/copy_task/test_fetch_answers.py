"""Which fetch answers count: only what was asked for the current leader, offset and generation."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.context import Counters
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.source.fetching import Fetcher, RequestedPosition
from drkit.copy_task.source.health import SourceHealth
from drkit.copy_task.source.leaders import gap
from drkit.kafka.codes import OFFSET_OUT_OF_RANGE
from drkit.wire import Record, encode, stamp

TOPIC = UUID(int=1)
OLD, NEW = 1, 2
OPPOSITE = 41
NOW_MS = 1_800_000_000_000


def batch(base: int, count: int, epoch: int, producer_id: int = -1) -> bytes:
    records = [Record(i, NOW_MS, b"k", b"v%d" % (base + i), ()) for i in range(count)]
    data = encode(records, 0, leader_epoch=epoch)
    if producer_id >= 0:
        stamp(data, producer_id, 0, 0, transactional=False)
    data[0:8] = base.to_bytes(8, "big")
    return bytes(data)


def answer(data: bytes = b"", *, error: int = 0) -> SimpleNamespace:
    part = SimpleNamespace(
        error_code=error, diverging_epoch=None, records=data, aborted_transactions=[], partition_index=0
    )
    topic = SimpleNamespace(topic_id=TOPIC, partitions=[part])
    return SimpleNamespace(error_code=0, session_id=0, responses=[topic])


def done(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def task_of(p: PartitionCopy) -> Any:
    """What a fetcher needs of a task that sends nothing."""
    stopped: list[Any] = []

    def stop(p: PartitionCopy, kind: str, reason: str, **evidence: object) -> None:
        p.stop(reason)
        stopped.append((kind, evidence))

    flow = SimpleNamespace(
        merge_below_bytes=0, merge_up_to_bytes=1, fetch_partition_max_bytes=1, fetch_max_bytes=1,
        fetch_max_wait_ms=1,
    )  # fmt: skip
    return SimpleNamespace(
        flow=flow,
        lease=SimpleNamespace(skip_producer_ids=(OPPOSITE,)),
        stop=stop,
        stopped=stopped,
        throttle=SimpleNamespace(take=lambda _size: None, most=lambda size: size),
        offer=lambda _p: None,
        ending="",
        changed=SimpleNamespace(set=lambda: None),
        seconds_left=9,
        counters=Counters(),
        partitions=[p],
    )


class World:
    """A partition and the fetchers of two brokers, without connections."""

    def __init__(
        self, end: int | None = None, skip_from: int | None = None, rebuilt_from: int | None = None
    ) -> None:
        lease = PartitionAssignment(
            "t", str(TOPIC), "t", str(UUID(int=2)), 0, 0,
            end=end, skip_from=skip_from, rebuilt_from=rebuilt_from,
        )  # fmt: skip
        self.partition = PartitionCopy(lease)
        self.partition.begin(upstream=0, downstream=0, copied_end=0, sequence=0, delta=None, leader_epoch=-1)
        self.task = task_of(self.partition)
        health = SourceHealth(0.5, set())
        self.looked_into: list[PartitionCopy] = []
        source: Any = SimpleNamespace(
            health=health,
            works=health.works,
            look_soon=lambda: None,
            spawn=lambda _settle, p, *_rest: self.looked_into.append(p),
        )
        self.old, self.new = (Fetcher(self.task, node, source) for node in (OLD, NEW))

    def asked(self) -> dict[PartitionCopy, RequestedPosition]:
        p = self.partition
        return {p: RequestedPosition(p.generation, p.fetch_position, p.leader_epoch)}


def test_a_late_answer_of_a_former_leader_changes_nothing() -> None:
    """Its leader epoch would be answered "diverging": the copy would go back and append twice."""
    world = World()
    p = world.partition
    p.leader, before = OLD, world.asked()
    p.leader, p.leader_epoch = NEW, 6
    done(world.new._handle(answer(batch(0, 10, 5) + batch(10, 10, 6)), world.asked()))
    assert (p.fetch_position, p.fetched_epoch) == (20, 6)
    done(world.old._handle(answer(batch(0, 10, 5)), before))
    assert (p.fetch_position, p.fetched_epoch) == (20, 6)
    request = world.new._request(world.asked())
    (asked,) = request.topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (20, 6)


def test_an_error_counts_for_the_leader_and_the_offset_it_was_asked_for() -> None:
    world = World()
    p = world.partition
    p.leader, before = OLD, world.asked()
    p.leader = NEW
    done(world.old._handle(answer(error=OFFSET_OUT_OF_RANGE), before))
    assert not world.looked_into, "a former leader"
    p.take([], 20, 6)
    done(world.new._handle(answer(error=OFFSET_OUT_OF_RANGE), before))
    assert not world.looked_into, "a former offset"
    done(world.new._handle(answer(error=OFFSET_OUT_OF_RANGE), world.asked()))
    assert world.looked_into == [p]


def test_an_answer_counts_for_the_offset_it_was_asked_for() -> None:
    """The leader may come back to a broker while its own earlier answer is on its way."""
    world = World()
    p = world.partition
    p.leader, p.leader_epoch = OLD, 5
    before = world.asked()
    done(world.old._handle(answer(batch(0, 10, 5)), before))
    p.take([], 15, 6)
    done(world.old._handle(answer(batch(0, 30, 7)), before))
    assert (p.fetch_position, p.fetched_epoch, len(p.waiting)) == (15, 6, 1)


def test_the_leader_epoch_of_what_was_fetched_goes_down_only_with_a_rewind() -> None:
    p = World().partition
    p.take([], 10, 6)
    p.take([], 20, 5)
    assert p.fetched_epoch == 6
    p.void()
    p.begin(upstream=8, downstream=8, copied_end=8, sequence=0, delta=0, leader_epoch=4)
    assert p.fetched_epoch == 4


def test_the_frontier_moves_over_what_the_source_deleted() -> None:
    """With `--once`, and nothing left to fetch: the partition is done, and its frontier is at the end."""
    world = World(end=100)
    p = world.partition
    p.take([], 50, 3)
    gap(world.task, p, 100)
    assert p.done
    assert p.acked_upstream == 100
    # With the epoch of the records before the gap the source would say that its history ended there.
    assert p.fetched_epoch == -1
    assert p.state is CopyState.LIVE


def test_a_batch_of_the_other_direction_after_the_cut_stops_the_partition_before_it() -> None:
    """What precedes it is appended first; nothing of it, and nothing after it, is queued or passed over."""
    world = World(skip_from=5)
    p = world.partition
    p.leader = NEW
    data = batch(0, 3, 1, OPPOSITE) + batch(3, 4, 1) + batch(7, 2, 1, OPPOSITE) + batch(9, 1, 1)
    done(world.new._handle(answer(data), world.asked()))
    assert world.task.counters.looped == {OPPOSITE: 3}
    assert [chunk.runs[0] for chunk in p.waiting] == [(3, 4)]
    assert p.fetch_position == 7
    assert not p.wants_more
    world.new._requested_positions(0.0)
    assert not world.task.stopped, "its records are still to be appended"
    p.waiting.clear()
    world.new._requested_positions(0.0)
    assert world.task.stopped == [("opposite_wrote", {"offset": 7, "producer_id": OPPOSITE, "began_at": 5})]
    assert p.state is CopyState.STOPPED
    assert p.done


def test_of_a_rebuilt_partition_batches_of_the_other_direction_are_copied_up_to_the_cut() -> None:
    world = World(skip_from=7, rebuilt_from=0)
    p = world.partition
    p.leader = NEW
    data = batch(0, 3, 1, OPPOSITE) + batch(3, 4, 1) + batch(7, 2, 1, OPPOSITE)
    done(world.new._handle(answer(data), world.asked()))
    assert world.task.counters.looped == {}
    assert sum(chunk.count for chunk in p.waiting) == 7
    assert p.fetch_position == 7
    p.waiting.clear()
    world.new._requested_positions(0.0)
    assert world.task.stopped == [("opposite_wrote", {"offset": 7, "producer_id": OPPOSITE, "began_at": 7})]


def test_without_a_cut_batches_of_the_other_direction_are_left_out_everywhere() -> None:
    world = World()
    p = world.partition
    p.leader = NEW
    done(world.new._handle(answer(batch(0, 3, 1, OPPOSITE) + batch(3, 1, 1)), world.asked()))
    assert (world.task.counters.looped, p.fetch_position, p.wants_more) == ({OPPOSITE: 3}, 4, True)


def test_a_partition_that_is_resolved_again_looks_for_the_alarm_again() -> None:
    world = World(skip_from=0)
    p = world.partition
    p.leader = NEW
    done(world.new._handle(answer(batch(0, 1, 1, OPPOSITE)), world.asked()))
    assert p.returned is not None
    p.void()
    assert p.returned is None
