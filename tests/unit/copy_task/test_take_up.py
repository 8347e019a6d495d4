"""What a task remembers of its own requests when it settles a partition: pure, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.future import Future
import pytest

from drkit.copy_task.copier import CopyTask
from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.source import leaders as source_errors
from drkit.copy_task.target.bulk import BulkAppender, Sent, acknowledge
from drkit.copy_task.target.take_up import TakeUp, take_up
from drkit.errors import Failed
from drkit.offset_map.look import Look
from drkit.offsets import History, Intent, PartitionMap, Reign, SegmentMap
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import Resolution
from drkit.wire import Chunk, How, OffsetRun

HISTORY = History(7, 0)


@pytest.fixture
def partition() -> PartitionCopy:
    made = PartitionCopy(PartitionAssignment("t", str(UUID(int=1)), "t", str(UUID(int=2)), 0, 0))
    made.begin(
        upstream=50, downstream=50, copied_end=50, sequence=50, delta=0, leader_epoch=3, history=HISTORY
    )
    return made


def taken(p: PartitionCopy, leader_epoch: int) -> TakeUp:
    """Settled at source offset 50, of which the last record has a leader epoch of the source."""
    found = Resolution(SegmentMap.of([(0, 0, -1)]), HISTORY, 50, 50, 50, 50, leader_epoch)
    reign = Reign(1, 1, ended=False, unclean=0)
    return take_up(p, PartitionMap(), found, Look(0, 50), reign=reign, lease=HISTORY, start=0)


def diverged(p: PartitionCopy, end: int, epoch: int) -> None:
    """The source answers that its history ends earlier."""
    task: Any = SimpleNamespace(emit=lambda *_a, **_k: None, trouble=lambda p: p.void())
    data = SimpleNamespace(error_code=0, diverging_epoch=SimpleNamespace(end_offset=end, epoch=epoch))
    with pytest.raises(StopIteration):
        source_errors.source_trouble(task, p, data).send(None)


@pytest.mark.parametrize(("leader_epoch", "upstream"), [(3, 40), (4, 50)])
def test_a_rewind_counts_for_the_epoch_that_was_asked(
    partition: PartitionCopy, leader_epoch: int, upstream: int
) -> None:
    """Another task may have gone back already, and copied what the source wrote since."""
    diverged(partition, 40, 2)
    assert taken(partition, leader_epoch).upstream == upstream


def test_a_history_that_ends_later_takes_nothing_back(partition: PartitionCopy) -> None:
    """The fetch was for less than what the log holds by now: only the history's end counts."""
    partition.fetch_position = 30
    diverged(partition, 45, 2)
    assert taken(partition, 3).upstream == 45


def test_a_claim_without_an_answer_binds_its_task(partition: PartitionCopy) -> None:
    """It may still become durable: what is appended at its offset must be the same."""

    async def refused(*_: object) -> None:
        raise Failed("map_refuses")

    copy: Any = SimpleNamespace(
        task=SimpleNamespace(write_map=refused, trouble=lambda p: p.void()), _offer=lambda _p: None
    )
    claim = Intent(Mode.LIVE, 1, HISTORY, 50, 50, 50, 3, ((50, 1),))
    assert not partition.contested
    with pytest.raises(StopIteration):
        CopyTask._intend(copy, partition, partition.generation, claim, Future()).send(None)
    assert partition.contested


def test_a_transaction_moves_no_cursor_that_has_started_again(partition: PartitionCopy) -> None:
    chunk = Chunk(bytearray(64), (OffsetRun(90, 5),), 5, 0, 95, 3, How.FORWARDED)
    sent = Sent(partition, partition.generation, chunk, None)
    partition.void()
    partition.begin(upstream=90, downstream=70, copied_end=70, sequence=0, delta=20, leader_epoch=3)
    acknowledge([(sent, 50)])
    assert (partition.acked_upstream, partition.acked_downstream, partition.uncommitted) == (90, 70, 0)
    partition.uncommitted += 1
    acknowledge([(sent._replace(generation=partition.generation), 70)])
    assert (partition.acked_upstream, partition.acked_downstream, partition.uncommitted) == (95, 75, 0)


def test_a_chunk_is_not_sent_for_a_partition_that_started_again_meanwhile(partition: PartitionCopy) -> None:
    """A round of bulk mode waits for one broker before it sends to the next."""
    other = PartitionCopy(PartitionAssignment("u", str(UUID(int=1)), "u", str(UUID(int=2)), 0, 0))
    other.begin(upstream=0, downstream=0, copied_end=0, sequence=0, delta=0, leader_epoch=3, history=HISTORY)
    for node, p in enumerate((partition, other)):
        chunk = Chunk(
            bytearray(64), (OffsetRun(p.fetch_position, 1),), 1, 0, p.fetch_position + 1, 3, How.FORWARDED
        )
        p.take([chunk], chunk.next_source, 3)
        p.state, p.target_leader = CopyState.BULK, node

    async def add(_partitions: object) -> None:
        return None

    task: Any = SimpleNamespace(
        in_bucket={0: [partition, other]}, expired=False, live_floor_ms=lambda _s: 10,
        flow=SimpleNamespace(produce_in_flight=5), lease=SimpleNamespace(map_topic="map"),
    )  # fmt: skip
    appender = BulkAppender(task, 0, SimpleNamespace(add=add))  # type: ignore[arg-type]  # what a round needs
    sent: list[tuple[int, list[Sent]]] = []

    async def send(node: int, chunks: list[Sent]) -> int:
        sent.append((node, chunks))
        other.void()
        return 64

    appender._send = send  # type: ignore[method-assign]  # the network
    with pytest.raises(StopIteration):
        appender._send_batches().send(None)
    assert [(node, [s.partition for s in chunks]) for node, chunks in sent] == [(0, [partition])]
