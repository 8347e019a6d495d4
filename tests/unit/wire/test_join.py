"""Whole batches joined by arrays: as the loop over records does it, or not at all."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
import random
import struct

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.wire import Chunk, CorruptBatch, How, OffsetRun, Record, decode, read_header
from drkit.wire.chunk import Whole
from drkit.wire.codecs import compress
from drkit.wire.join import join
from drkit.wire.merge import WHOLE_FROM
from drkit.wire.rebuild import Recipe, rebuild
from drkit.wire.records import scan
from tests.support.wire.forge import Batch, batch, copied, log, plain_record, record_bytes, run

NOW = 1_700_000_000_000
RECIPE = Recipe(codec=0, leader_epoch=4, max_batch_bytes=1 << 30, how=How.MERGED)
CHANCES = st.integers(0, 1 << 62).map(random.Random)
"""A seed an example: records of several kilobytes drawn one by one take hypothesis most of a second."""
MERGE = {"merge_below": 1 << 20, "merge_up_to": 1 << 20}


def whole(base: int, rows: list[Record], base_time: int | None = None) -> Whole:
    time = rows[0].timestamp if base_time is None else base_time
    data = b"".join(record_bytes(row.offset - base, row.timestamp - time, row) for row in rows)
    return Whole(base, time, len(rows), data)


def one_by_one(batches: list[Whole], recipe: Recipe) -> list[Chunk]:
    found = []
    for base, time, count, data in batches:
        found += scan(data, base, time, count - 1, count)
    return list(rebuild(found, recipe))


def rows(draw: random.Random, base: int, count: int, spread: int) -> list[Record]:
    def field(sizes: tuple[int, ...]) -> bytes | None:
        return None if draw.random() < 0.1 else draw.randbytes(draw.choice(sizes))

    return [
        Record(
            base + n,
            NOW + draw.randint(-spread, spread),
            field((0, 5, 70)),
            field((0, 3, 61, 62, 63, 64, 65, 200, 8_200)),
            ((b"h", field((0, 9))),) * draw.choice((0, 0, 1, 3)),
        )
        for n in range(count)
    ]


@given(
    CHANCES,
    st.lists(st.tuples(st.integers(1, 150), st.sampled_from((0, 0, 1, 7))), min_size=1, max_size=6),
    st.sampled_from((0, 1, 63, 64, 65, 8_191, 8_193, 300_000)),
    st.integers(0, 4),
)
def test_it_makes_the_batch_that_the_loop_makes(draw, shape, spread, codec):
    base, batches = draw.choice((0, 5, 1 << 40)), []
    for count, hole in shape:
        batches.append(whole(base, rows(draw, base, count, spread), NOW + draw.choice((0, 3, -70))))
        base += count + hole
    recipe = RECIPE._replace(codec=codec)
    joined = join(batches, recipe)
    assert joined is not None
    assert [dataclasses.asdict(joined)] == [dataclasses.asdict(c) for c in one_by_one(batches, recipe)]


@given(
    st.lists(
        st.tuples(st.sampled_from((0, 1, 55, 56, 250, 9_000)), st.integers(1, 300)),
        min_size=1,
        max_size=12,
    ),
    st.integers(12, 400),
)
def test_stretches_of_records_of_one_size(stretches, per_batch):
    values = [bytes(size) for size, count in stretches for _ in range(count)]
    records = [Record(n, NOW + n // 9, None, value, ()) for n, value in enumerate(values)]
    batches = [whole(n, records[n : n + per_batch]) for n in range(0, len(records), per_batch)]
    assert [join(batches, RECIPE)] == one_by_one(batches, RECIPE)


def test_more_records_than_two_bytes_can_number():
    batches = [whole(n, [plain_record(m) for m in range(n, n + 1000)]) for n in range(0, 20_000, 1000)]
    joined = join(batches, RECIPE)
    assert joined is not None
    assert [joined] == one_by_one(batches, RECIPE)
    assert joined.runs == (OffsetRun(0, 20_000),)


@pytest.mark.parametrize("delta", [(1 << 20) - 1, -(1 << 20) + 1])
def test_the_longest_time_it_takes(delta: int):
    batches = [whole(0, [Record(0, NOW, None, b"", ()), Record(1, NOW + delta, None, b"", ())])]
    assert [join(batches, RECIPE)] == one_by_one(batches, RECIPE)


UNUSUAL = {
    "a time 20 minutes later": [Record(0, NOW, None, b"", ()), Record(1, NOW + 1_200_000, None, b"", ())],
    "a time 20 minutes earlier": [Record(0, NOW, None, b"", ()), Record(1, NOW - 1_200_000, None, b"", ())],
    "a time a year later": [Record(0, NOW, None, b"", ()), Record(1, NOW + (1 << 35), None, b"", ())],
    "a record of two megabytes": [Record(0, NOW, None, b"", ()), Record(1, NOW, None, bytes(1 << 21), ())],
}


@pytest.mark.parametrize("records", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_the_loop(records: list[Record]):
    assert join([whole(0, records)], RECIPE) is None
    several = [batch(n, 20) for n in range(0, 100, 20)]
    odd = Batch(100, tuple(row._replace(offset=100 + row.offset) for row in records))
    filled = odd.having(records=odd.records + tuple(plain_record(n) for n in range(102, 120)))
    done = run(log(*several, filled, batch(120, 20)), **(MERGE | {"merge_below": 1 << 30}))
    assert copied(done) == [row for item in (*several, filled, batch(120, 20)) for row in item.records]


def test_a_batch_larger_than_the_target_takes_is_left_to_the_loop():
    batches = [whole(n, [plain_record(m) for m in range(n, n + 50)]) for n in (0, 50)]
    assert join(batches, RECIPE._replace(max_batch_bytes=1000)) is None


@given(CHANCES, st.integers(0, 3))
def test_damaged_bytes_are_never_joined_to_something_else(draw, spoilt):
    """Whatever the bytes: what comes out is what the loop makes of them, and nothing where that raises."""
    batches = [whole(n, rows(draw, n, 20, 50)) for n in (0, 20)]
    data = bytearray(batches[1].data)
    for _ in range(spoilt):
        data[draw.randrange(len(data))] = draw.randrange(256)
    if draw.random() < 0.3:
        del data[draw.randrange(len(data)) :]
    batches[1] = batches[1]._replace(data=bytes(data))
    joined = join(batches, RECIPE)
    if joined is not None:
        assert [joined] == one_by_one(batches, RECIPE)


LIES = {
    "offsets that fall": (*range(18), 19, 18),
    "an offset twice": (*range(18), 18, 18),
    "a hole": (*range(18), 19, 20),
}


@pytest.mark.parametrize("deltas", LIES.values(), ids=LIES)
@pytest.mark.parametrize("neighbours", [0, 1])
def test_lies_are_found_alone_and_among_others(deltas: tuple[int, ...], neighbours: int):
    lie = Batch(20, tuple(plain_record(20 + delta) for delta in deltas), last_offset_delta=19, count=20)
    others = [batch(0, 20), batch(40, 20)] if neighbours else []
    with pytest.raises(CorruptBatch) as caught:
        run(log(*others[:1], lie, *others[1:]), **MERGE)
    assert caught.value.offset == 20


@pytest.mark.parametrize("codec", range(5))
def test_large_and_small_ones_in_any_order_stay_in_order(codec: int):
    sizes = [1, WHOLE_FROM, 40, 2, WHOLE_FROM - 1, 90, 90, 1, 1, 40]
    starts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    batches = [batch(low, high - low, codec=codec) for low, high in pairwise(starts)]
    for order in range(len(batches)):
        done = run(log(*batches[order:]), position=starts[order], **MERGE)
        (chunk,) = done.chunks
        assert chunk.runs == (OffsetRun(starts[order], starts[-1] - starts[order]),)
        assert copied(done) == [plain_record(n) for n in range(starts[order], starts[-1])]


def test_groups_of_whole_batches_end_at_the_limit():
    batches = [batch(n, 50, codec=3) for n in range(0, 5000, 50)]
    done = run(log(*batches), merge_below=1 << 20, merge_up_to=10_000)
    assert len(done.chunks) > 5
    assert copied(done) == [plain_record(n) for n in range(5000)]


def test_the_frame_around_them_is_a_sound_batch():
    batches = [whole(n, [plain_record(m) for m in range(n, n + 30)]) for n in (0, 30)]
    chunk = join(batches, RECIPE._replace(codec=3))
    assert chunk is not None
    header = read_header(chunk.data)
    assert (header.count, header.last_offset_delta, header.codec) == (60, 59, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 59)
    assert len(chunk.data) == struct.unpack_from(">i", chunk.data, 8)[0] + 12
    assert decode(header, chunk.data) == [plain_record(n) for n in range(60)]
    assert bytes(chunk.data[61:]) == compress(3, bytes(one_by_one(batches, RECIPE)[0].data[61:]))
