"""Batches whose header contradicts their records: a broker stores some of them, drkit must not make any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drkit.wire import CorruptBatch, Record, split
from tests.support.wire.forge import Batch, batch, run
from tests.support.wire.partition import MERGE, PASSIVE, Partition

INVALID_RECORD = 87


def _inside(*deltas: int, last: int, count: int) -> Batch:
    rows = tuple(Record(delta, 1_700_000_000_000, b"k%d" % delta, b"v", ()) for delta in deltas)
    return Batch(0, rows, last_offset_delta=last, count=count)


STORED = {
    "holes": _inside(0, 2, 4, last=2, count=3),
    "reversed": _inside(2, 1, 0, last=2, count=3),
    "repeated": _inside(0, 0, 1, last=2, count=3),
}
"""Lies that a broker takes when they are not compressed."""
LIES = STORED | {
    "count too large": _inside(0, 1, 2, last=4, count=5),
    "count too small": _inside(0, 1, 2, last=1, count=2),
}
WHEREVER_RECORDS_ARE_READ: list[dict[str, Any]] = [
    MERGE,
    {"position": 1},
    {"end": 1},
    {"max_batch_bytes": 70},
]


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("arguments", WHEREVER_RECORDS_ARE_READ, ids=str)
def test_headers_that_lie_are_found_wherever_records_are_read(lie: Batch, arguments: dict[str, Any]) -> None:
    with pytest.raises(CorruptBatch) as caught:
        run(lie.to_bytes(), **arguments)
    assert caught.value.offset == 0


def test_counts_that_disagree_are_always_read() -> None:
    with pytest.raises(CorruptBatch, match="header says 2 records, more are inside"):
        run(_inside(0, 1, 2, last=2, count=2).to_bytes())


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_a_broker_stores_never_leaves_a_reader_of_records(
    topic: Callable[..., Partition], lie: Batch, request: pytest.FixtureRequest
) -> None:
    """Uncompressed batches are not checked inside: the broker takes some of these, and we must not."""
    partition = topic(**PASSIVE)
    partition.append(batch(0, 2).to_bytes())
    answer = partition.append(lie.to_bytes())
    assert (answer.error == 0) == any(lie is each for each in STORED.values()), request.node.name
    if answer.error:
        assert partition.fetch(0).end == 2
        return
    partition.append(batch(0, 2).to_bytes())
    knobs: list[dict[str, Any]] = [MERGE, {"max_batch_bytes": 70}]
    for each in knobs:
        with pytest.raises(CorruptBatch) as caught:
            list(partition.transformed(**each))
        assert caught.value.offset == answer.base_offset == 2


@pytest.mark.parametrize("lie", STORED.values(), ids=STORED)
def test_forwarded_it_reads_as_on_the_source(topic: Callable[..., Partition], lie: Batch) -> None:
    """The one way a lie can travel: an uncompressed batch that a broker already stored so."""
    partition, copy = topic(**PASSIVE), topic("-copy", **PASSIVE)
    for each in (batch(0, 2), lie, batch(0, 2)):
        assert partition.append(each.to_bytes()).error == 0
    copy.append_all([chunk for part in partition.transformed() for chunk in part.chunks])
    assert copy.consume() == partition.consume()


def test_the_broker_refuses_counts_that_disagree_and_lies_in_compressed_batches(
    topic: Callable[..., Partition],
) -> None:
    partition = topic(**PASSIVE)
    assert partition.append(_inside(0, 2, last=2, count=2).to_bytes()).error == INVALID_RECORD
    for lie in STORED.values():
        for codec in (1, 2, 3, 4):
            assert partition.append(lie.having(codec=codec).to_bytes()).error != 0
    assert partition.fetch(0).end == 0


def test_bits_that_would_be_stored_do_not_leave(topic: Callable[..., Partition]) -> None:
    partition, copy = topic(**PASSIVE), topic("-copy", **PASSIVE)
    assert partition.append(batch(0, 2, attributes=0x80).to_bytes()).error == 0
    ((stored, _),) = split(partition.fetch(0).records)
    assert stored.attributes == 0x80
    chunks = [chunk for part in partition.transformed() for chunk in part.chunks]
    copy.append_all(chunks)
    ((header, _),) = split(copy.fetch(0).records)
    assert header.attributes == 0
