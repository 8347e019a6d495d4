"""Joining small batches."""

from __future__ import annotations

import pytest

from drkit.wire import How, OffsetRun, Record, read_header
from tests.support.wire.forge import Batch, batch, copied, log, plain_record, run

SMALL = {"merge_below": 1000}


def ones(start: int, end: int, codec: int = 0) -> list[Batch]:
    return [batch(offset, 1, codec=codec) for offset in range(start, end)]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("count", [1, 3])
def test_neighbours_become_one_batch_of_the_same_codec(codec: int, count: int) -> None:
    batches = [batch(base, count, codec=codec) for base in range(0, 30 * count, count)]
    done = run(log(*batches), **SMALL)
    (chunk,) = done.chunks
    assert (chunk.how, chunk.runs) == (How.MERGED, (OffsetRun(0, 30 * count),))
    assert read_header(chunk.data).codec == codec
    assert copied(done) == [plain_record(offset) for offset in range(30 * count)]


def test_a_lone_small_batch_is_forwarded() -> None:
    source = batch(0, 1).to_bytes()
    done = run(source, **SMALL)
    assert done.chunks[0].how is How.FORWARDED
    assert done.chunks[0].data[61:] == source[61:]


def test_codecs_do_not_mix() -> None:
    done = run(log(*ones(0, 3), *ones(3, 6, codec=4), batch(6, 1, codec=3), *ones(7, 9)), **SMALL)
    assert [read_header(chunk.data).codec for chunk in done.chunks] == [0, 4, 3, 0]
    assert [chunk.count for chunk in done.chunks] == [3, 3, 1, 2]
    assert len(copied(done)) == 9


def test_a_large_batch_goes_alone_and_in_order() -> None:
    done = run(log(*ones(0, 3), batch(3, 200), *ones(203, 206)), **SMALL)
    assert [chunk.how for chunk in done.chunks] == [How.MERGED, How.FORWARDED, How.MERGED]
    assert copied(done) == [plain_record(offset) for offset in range(206)]


@pytest.mark.parametrize("codec", [0, 2])
def test_groups_end_at_the_limit(codec: int) -> None:
    done = run(log(*ones(0, 500, codec=codec)), merge_up_to=2000, **SMALL)
    assert len(done.chunks) > 5
    assert all(chunk.size <= 2000 for chunk in done.chunks)
    assert copied(done) == [plain_record(offset) for offset in range(500)]
    limited = run(log(*ones(0, 500, codec=codec)), max_batch_bytes=2000, **SMALL)
    assert all(chunk.size <= 2000 for chunk in limited.chunks)


def test_a_limit_below_one_batch_joins_nothing() -> None:
    done = run(log(*ones(0, 5)), merge_up_to=0, **SMALL)
    assert [chunk.how for chunk in done.chunks] == [How.FORWARDED] * 5


def test_batches_that_unpack_to_much_are_not_piled_up() -> None:
    big = [
        Batch(n, (Record(n, 1, None, bytes(600_000), ()),), codec=4)  # 100 bytes, packed
        for n in range(20)
    ]
    done = run(log(*big), merge_up_to=1_000_000, **SMALL)
    assert 2 <= len(done.chunks) <= 5
    assert len(copied(done)) == 20


def test_holes_between_batches_show_in_the_runs() -> None:
    done = run(log(batch(0, 2), batch(5, 1), batch(6, 2), batch(90, 1)), **SMALL)
    assert done.chunks[0].runs == (OffsetRun(0, 2), OffsetRun(5, 3), OffsetRun(90, 1))
    assert done.next_source == 91
    assert done.drops == []


def test_unusual_small_batches_join_too() -> None:
    done = run(
        log(
            batch(0, 4),
            Batch(4, (plain_record(5), plain_record(7)), span=6),
            batch(10, 2, attributes=0x08, max_time=1_700_000_000_500),
            batch(12, 1, attributes=0x40, base_time=1_800_000_000_000),
            batch(13, 4),
        ),
        position=2,
        end=15,
        **SMALL,
    )
    (chunk,) = done.chunks
    assert chunk.how is How.MERGED
    assert chunk.runs == (OffsetRun(2, 2), OffsetRun(5, 1), OffsetRun(7, 1), OffsetRun(10, 5))
    assert [record.timestamp - 1_700_000_000_000 for record in copied(done)] == [
        *(2, 3, 5, 7),
        *(500, 500),
        *(12, 13, 14),
    ]


@pytest.mark.parametrize("jump", [1, 2_000, 17_000, 10**9])
def test_every_record_keeps_its_time(jump: int) -> None:
    times = [1_700_000_000_000 + sign * jump * n for n, sign in enumerate((0, 1, -1, 1, -1, 1))]
    rows = [Record(n, time, b"k", b"v", ()) for n, time in enumerate(times)]
    done = run(log(*(Batch(row.offset, (row,)) for row in rows)), **SMALL)
    (chunk,) = done.chunks
    assert copied(done) == rows
    assert chunk.max_timestamp == max(times)


def test_one_record_with_deltas_of_its_own_is_no_surprise() -> None:
    odd = Batch(1, (plain_record(1),), base_time=1_600_000_000_000)
    done = run(log(batch(0, 1), odd, batch(2, 1)), **SMALL)
    assert copied(done) == [plain_record(0), plain_record(1), plain_record(2)]


@pytest.mark.parametrize(
    "size", [0, 50, 56, 57, 58, 59, 60, 61, 118, 8180, 8190, 8195, 16_300, 16_400, 20_000]
)
def test_records_of_any_size_are_spliced(size: int) -> None:
    rows = [Record(n, 5, None, b"x" * size, ()) for n in range(3)]
    done = run(log(*(Batch(row.offset, (row,)) for row in rows)), merge_below=30_000)
    assert [chunk.how for chunk in done.chunks] == [How.MERGED]
    assert copied(done) == rows


def test_the_leader_epoch_is_that_of_the_last_batch() -> None:
    done = run(log(batch(0, 1, leader_epoch=1), batch(1, 1, leader_epoch=2), batch(2, 99)), **SMALL)
    assert [chunk.leader_epoch for chunk in done.chunks] == [2, 3]
    assert done.leader_epoch == 3


def test_batches_that_unpack_to_much_are_not_held_together() -> None:
    value = bytes(4 << 20)
    time_of_broker = {"attributes": 0x08, "max_time": 1_700_000_000_000}
    small = [Batch(n, (plain_record(n)._replace(value=value),), codec=4, **time_of_broker) for n in range(3)]
    assert len(log(*small)) < 3000
    done = run(log(*small), merge_below=16 * 1024)
    assert [chunk.how for chunk in done.chunks] == [How.REBUILT] * 3
    assert [record.value == value for record in copied(done)] == [True] * 3
