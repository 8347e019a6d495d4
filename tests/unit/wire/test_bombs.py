"""Batches that are small and unpack to a lot, and times that leave 64 bits: one batch each, never a task."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from drkit.wire import CorruptBatch, How, Record, decode, split, transform
from drkit.wire.records import LARGEST_JOINED
from tests.support.wire.forge import Batch, batch, parts, run
from tests.support.wire.partition import MERGE

MIB = 1 << 20
UNPACKED = 3 * LARGEST_JOINED
LOG_APPEND_TIME = 8
LAST = (1 << 63) - 1


def bombs(count: int, codec: int, records: int = 1, attributes: int = 0) -> bytes:
    value = bytes(UNPACKED // records)
    return b"".join(
        Batch(
            at * records,
            tuple(Record(at * records + n, 1_700_000_000_000, b"k", value, ()) for n in range(records)),
            codec=codec,
            attributes=attributes,
            max_time=1_700_000_000_000,
        ).to_bytes()
        for at in range(count)
    )


def peak(data: bytes) -> int:
    """Bytes that a transformation holds at most."""
    tracemalloc.start()
    try:
        for _ in transform(
            data, position=0, end=None, aborted=(), skip_producer_ids=frozenset(), merge_below=64 << 10,
            merge_up_to=256 << 10, max_batch_bytes=MIB,
        ):  # fmt: skip
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("records", [1, 20])
@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_unpacks_to_a_lot_travels_as_it_is(codec: int, records: int) -> None:
    data = bombs(3, codec, records)
    done = run(data, merge_below=len(data), merge_up_to=256 << 10)
    assert [chunk.how for chunk in done.chunks] == [How.FORWARDED] * 3
    assert done.next_source == 3 * records


@pytest.mark.parametrize("records", [1, 20])
def test_bombs_are_not_unpacked_to_join_them(records: int) -> None:
    assert peak(bombs(12, 4, records)) < 2 * LARGEST_JOINED


def test_bombs_that_must_be_rebuilt_are_so_one_at_a_time() -> None:
    one, many = (peak(bombs(count, 4, attributes=LOG_APPEND_TIME)) for count in (1, 6))
    assert many < one + LARGEST_JOINED


def test_a_record_whose_time_leaves_64_bits_stops_its_partition() -> None:
    """Two small batches of that kind ended a task with struct.error."""
    rows = (Record(0, LAST, b"k", b"v", ()), Record(1, LAST + 5, b"k", b"v", ()))
    for codec in (0, 1):
        data = Batch(0, rows, codec=codec, base_time=LAST, max_time=LAST).to_bytes()
        for arguments in (MERGE, {"position": 1}, {"max_batch_bytes": 70}):
            with pytest.raises(CorruptBatch, match="more than 64 bits"):
                run(data, **arguments)


def test_many_records_whose_times_leave_64_bits() -> None:
    rows = tuple(Record(n, LAST + n, b"k", b"v", ()) for n in range(20))
    with pytest.raises(CorruptBatch, match="more than 64 bits"):
        run(Batch(0, rows, base_time=LAST, max_time=LAST).to_bytes(), **MERGE)


def test_a_delta_that_no_time_can_have() -> None:
    rows = (Record(0, -(1 << 63), b"k", b"v", ()), Record(1, LAST, b"k", b"v", ()))
    with pytest.raises(CorruptBatch, match="timestamp delta"):
        run(Batch(0, rows, base_time=-(1 << 63), max_time=LAST).to_bytes(), **MERGE)


def test_times_that_no_batch_can_hold_together_are_not_joined() -> None:
    """Each batch is sound: the difference of their times is what has more than 64 bits."""
    times = (-(1 << 63), LAST, 5)
    sound = [Batch(at, (Record(at, time, b"k", b"v", ()),)) for at, time in enumerate(times)]
    done = run(b"".join(each.to_bytes() for each in sound), **MERGE)
    read = [decode(header, batch) for chunk in done.chunks for header, batch in split(bytes(chunk.data))]
    assert [record.timestamp for records in read for record in records] == list(times)


def test_with_the_brokers_time_a_producers_nonsense_counts_for_nothing() -> None:
    rows = (Record(0, LAST, b"k", b"v", ()), Record(1, LAST + 5, b"k", b"v", ()))
    batch = Batch(0, rows, base_time=LAST, max_time=1_700_000_000_000, attributes=LOG_APPEND_TIME)
    done = run(batch.to_bytes(), **MERGE)
    ((header, data),) = split(bytes(done.chunks[0].data))
    assert {record.timestamp for record in decode(header, data)} == {1_700_000_000_000}


MANY = 30_000
PART = 2_000


def tiny(count: int, **fields: Any) -> bytes:
    """An ordinary producer's batch of records with neither key nor value: 9 bytes each, 1 when compressed."""
    rows = tuple(Record(n, 1_700_000_000_000, None, None, ()) for n in range(count))
    return Batch(0, rows, codec=4, max_time=1_700_000_000_000, **fields).to_bytes()


@pytest.fixture(scope="module")
def tiny_log() -> bytes:
    return tiny(MANY, attributes=LOG_APPEND_TIME)


@pytest.mark.parametrize("position", [0, MANY // 2 + 1])
def test_a_batch_of_very_many_records_comes_in_parts(tiny_log: bytes, position: int) -> None:
    found, held = [], []
    tracemalloc.start()
    for part in transform(
        tiny_log, position=position, end=None, aborted=(), skip_producer_ids=frozenset(),
        merge_below=64 << 10, merge_up_to=256 << 10, max_batch_bytes=MIB, most_records=PART,
    ):  # fmt: skip
        found.append(sum(chunk.count for chunk in part.chunks))
        assert part.next_source == position + sum(found)
        held.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert sum(found) == MANY - position
    assert max(found) <= PART
    assert max(held) < 5 * MIB, "480 bytes for each record would be 14 MiB"


def test_very_many_records_of_small_batches_come_in_parts() -> None:
    """Each is small enough to be joined with others."""
    rows = tuple(Record(n, 1_700_000_000_000, None, None, ()) for n in range(100))
    for attributes in (0, LOG_APPEND_TIME):
        log = b"".join(
            Batch(100 * at, tuple(r._replace(offset=100 * at + r.offset) for r in rows), codec=4,
                  attributes=attributes, max_time=1_700_000_000_000).to_bytes()
            for at in range(500)
        )  # fmt: skip
        found = [sum(c.count for c in part.chunks) for part in parts(log, **MERGE, most_records=PART)]
        assert sum(found) == 50_000
        assert max(found) <= PART + 100


def test_one_record_batches_come_in_parts_when_a_group_is_full() -> None:
    log = b"".join(batch(n, 1, codec=0).to_bytes() for n in range(20_000))
    found = [sum(c.count for c in part.chunks) for part in parts(log, **MERGE, most_records=2_000)]
    assert sum(found) == 20_000
    assert len(found) > 3
