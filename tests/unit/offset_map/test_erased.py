"""A copy with records of the flow and no map record: the map is lost, or they are of an earlier topic."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest

from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, pairs
from drkit.offset_map.look import Look
from drkit.offset_map.settling import Scan, Settled, Wanted, settling
from drkit.offsets import History, MapKey, MapRecord, Mark, PartitionMap
from drkit.offsets.resolution import LogBatch

LIVE: Final = 7
BULK: Final = 8
OTHER: Final = 9
NOW: Final = MapKey(UUID(int=2), UUID(int=5), 0)
EARLIER: Final = MapKey(UUID(int=1), UUID(int=5), 0)


def batch(base: int, producer_id: int, epoch: int = 0, *, aborted: bool = False) -> LogBatch:
    transactional = producer_id == BULK
    return LogBatch(base, 10, producer_id, epoch, 0, transactional, control=False, aborted=aborted)


def marked(end: int, history: History) -> MapRecord:
    return Mark(1, history, end, end, end, end, 1, live=True)


def settled(log: list[LogBatch]) -> Settled:
    """Settle a partition of which the map knows nothing."""
    wanted = Wanted(TopicPartition("t", 0), PartitionMap(), frozenset({LIVE}), bulk_ids=frozenset({BULK}))
    steps = settling(wanted, Look(0, log[-1].end if log else 0))
    answer = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            result: Settled = end.value
            return result
        assert isinstance(request, Scan)
        found = [b for b in log if b.end > request.start]
        seen = [b for b in found if not b.aborted]
        answer = seen[:1] if request.first_visible else found


def doubt(log: list[LogBatch], *earlier: MapRecord, is_partial: bool = False) -> str:
    bucket = MapBucket(3, "map", is_partial=is_partial)
    for key, value in pairs((EARLIER, record) for record in earlier):
        bucket.apply(key, value)
    found = bucket.doubt(NOW, settled(log).resolution)
    return "" if found is None else found.reason


LONG: Final = [batch(base, OTHER) for base in range(0, 200, 10)]


@pytest.mark.parametrize("producer_id", [LIVE, BULK])
@pytest.mark.parametrize("others", [[], LONG], ids=["first", "last"])
def test_records_of_the_flow_prove_that_the_map_is_lost(producer_id: int, others: list[LogBatch]) -> None:
    base = others[-1].end if others else 0
    reason = doubt([*others, batch(base, producer_id)])
    assert reason.startswith("the offset map map-3 has lost records of this partition")
    assert f"offset {base} of producer id {producer_id}" in reason


@pytest.mark.parametrize(
    "log", [[], LONG, [batch(0, BULK, aborted=True)], [batch(0, OTHER), batch(10, BULK, aborted=True)]]
)
def test_other_records_and_aborted_ones_prove_nothing(log: list[LogBatch]) -> None:
    assert not doubt(log)


def test_records_of_an_earlier_topic_prove_nothing() -> None:
    history = History(LIVE, 4)
    assert not doubt([batch(0, LIVE, 3), batch(10, BULK)], marked(20, history)), "before its end"
    assert not doubt([batch(0, LIVE, 4), batch(10, LIVE, 4)], marked(10, history)), "claimed by it"
    assert doubt([batch(0, LIVE, 4), batch(10, LIVE, 5)], marked(10, history)), "the epoch of this topic"
    assert doubt([batch(0, LIVE, 4), batch(10, BULK)], marked(10, history)), "after its end"


def test_a_map_that_was_read_up_to_an_open_transaction_proves_nothing() -> None:
    assert not doubt([batch(0, LIVE)], is_partial=True)


def test_after_a_batch_that_was_not_read_no_partition_of_the_bucket_is_reliable() -> None:
    bucket = MapBucket(3, "map")
    for key, value in pairs((NOW, record) for record in (marked(10, History(LIVE, 0)),)):
        bucket.apply(key, value, 4)
    assert bucket.doubt(NOW) is None
    bucket.pass_over(5, "a batch of 200,000 records")
    for key, value in pairs((NOW, record) for record in (marked(20, History(LIVE, 0)),)):
        bucket.apply(key, value, 6)
    found = bucket.doubt(NOW)
    assert found is not None
    assert "map-3 at offset 5, a batch of 200,000 records" in found.reason
    bucket.forget()
    assert bucket.doubt(NOW) is None
