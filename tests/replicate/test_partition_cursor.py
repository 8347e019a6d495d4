"""What a partition's cursor tells the map: no leader epoch that is too old, no claim left unconfirmed."""

from __future__ import annotations

from uuid import UUID

import pytest

from drkit.model import SourceOffset
from drkit.offsets import Intent
from drkit.offsets.map_record import Mode
from drkit.offsets.partition_map import PartitionMap
from drkit.replicate.lease import PartitionLease
from drkit.replicate.partition import PartitionCopy, State
from drkit.wire import Chunk, How, Record, Run, encode

PRODUCER, NOW_MS, NONCE = (7, 0), 1000, 5


def chunk(first: int, count: int, epoch: int) -> Chunk:
    data = encode([Record(i, NOW_MS, None, b"x", ()) for i in range(count)], 0)
    return Chunk(data, (Run(first, count),), count, NOW_MS, first + count, epoch, How.FORWARDED)


@pytest.fixture
def partition() -> PartitionCopy:
    made = PartitionCopy(PartitionLease("t", str(UUID(int=1)), "t", str(UUID(int=2)), 0, 0))
    made.begin(upstream=10, downstream=10, copied_end=10, sequence=0, delta=0, leader_epoch=3)
    return made


def stage(partition: PartitionCopy, *chunks: Chunk) -> tuple[int, int] | None:
    """Target offset and leader epoch of the intent, if there is one."""
    partition.take(list(chunks), chunks[-1].next_source, chunks[-1].leader_epoch)
    intent = partition.stage(PRODUCER, 0, NONCE, None)
    return (intent.downstream, intent.leader_epoch) if intent is not None else None


def test_another_leader_epoch_begins_with_an_intent(partition: PartitionCopy) -> None:
    assert stage(partition, chunk(10, 5, 3)) is None  # goes on as the map says
    assert stage(partition, chunk(15, 5, 4)) == (15, 4)
    assert stage(partition, chunk(20, 5, 4)) is None
    assert stage(partition, chunk(25, 5, 4), chunk(30, 5, 6)) == (30, 6)
    assert stage(partition, chunk(36, 5, 6)) == (35, 6)  # a hole, as ever


def test_a_mark_holds_the_epoch_of_all_that_it_passes(partition: PartitionCopy) -> None:
    stage(partition, chunk(10, 5, 3))
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.leader_epoch) == (15, 3)
    partition.take([], 17, 5)  # a marker that the next leader wrote
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.downstream, mark.leader_epoch) == (17, 15, 5)


def test_what_is_not_acknowledged_yet_is_passed_by_no_mark(partition: PartitionCopy) -> None:
    stage(partition, chunk(10, 5, 3), chunk(15, 5, 4))
    partition.take([], 22, 4)
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.leader_epoch) == (15, 3)
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert (mark.upstream, mark.leader_epoch) == (22, 4)


def test_a_claim_that_is_not_appended_yet_stays_unmarked_after_a_mark(partition: PartitionCopy) -> None:
    """A bulk record makes claims void: what a mark has not reached must be marked before one is written."""
    said = PartitionMap()
    stage(partition, chunk(10, 5, 3))
    partition.acknowledge(partition.ready.popleft())
    partition.take([chunk(20, 7, 3)], 27, 3)  # behind a hole
    intent = partition.stage(PRODUCER, 0, NONCE, None)
    assert intent is not None
    said.apply(intent)
    confirm(partition, said)  # one of those every 15 s, while the append is on its way
    assert unmarked(partition)
    partition.acknowledge(partition.ready.popleft())
    partition.state = State.BULK
    assert unmarked(partition)
    confirm(partition, said)
    assert not unmarked(partition)
    said.apply(Intent(Mode.BULK, 1, 9, 0, 0, 22, 22, 3, (), ((27, 4),)))
    assert [said.segments.translate(SourceOffset(u), 26) for u in (20, 26, 27, 30)] == [15, 21, 22, 25]


def test_a_mark_counts_once_it_is_durable(partition: PartitionCopy) -> None:
    """While one is on its way nobody may rely on it, and one of before the target was asked says nothing."""
    partition.take([chunk(20, 7, 3)], 27, 3)
    partition.stage(PRODUCER, 0, NONCE, None)
    partition.acknowledge(partition.ready.popleft())
    mark = partition.mark(NONCE)
    assert mark is not None
    assert unmarked(partition)
    assert partition.mark(NONCE) == mark
    partition.void()
    partition.begin(upstream=27, downstream=17, copied_end=17, sequence=7, delta=10, leader_epoch=3)
    assert not unmarked(partition), "the look at the target has settled it"
    partition.confirmed(mark, NONCE)
    assert partition.mark(NONCE) is not None


def unmarked(partition: PartitionCopy) -> bool:
    """Now."""
    return partition.unmarked


def confirm(partition: PartitionCopy, said: PartitionMap) -> None:
    """Write a mark, if there is one to write."""
    mark = partition.mark(NONCE)
    if mark is not None:
        said.apply(mark)
        partition.confirmed(mark, NONCE)
