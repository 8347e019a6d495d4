"""One rule of the transformation per test; the combinations are in test_transform_model.py."""

from __future__ import annotations

import pickle

import pytest

from drkit.wire import (
    BatchHeader,
    CorruptBatch,
    Drop,
    DropReason,
    How,
    OffsetRun,
    Record,
    read_header,
)
from tests.support.wire.forge import (
    ABORT,
    COMMIT,
    Batch,
    batch,
    copied,
    log,
    marker,
    plain_record,
    run,
)

HORIZON, CONTROL, TRANSACTIONAL, LOG_APPEND = 0x40, 0x20, 0x10, 0x08


def records(*offsets: int) -> tuple[Record, ...]:
    return tuple(plain_record(offset) for offset in offsets)


def header_of(data: bytearray) -> BatchHeader:
    return read_header(data)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_passes_with_its_records_untouched(codec: int) -> None:
    source = batch(100, 20, codec=codec, producer_id=9, leader_epoch=4).to_bytes()
    done = run(source, position=100)
    (chunk,) = done.chunks
    assert (chunk.how, chunk.runs, chunk.count) == (How.FORWARDED, (OffsetRun(100, 20),), 20)
    assert (chunk.next_source, chunk.leader_epoch) == (120, 4)
    assert chunk.data[61:] == source[61:]
    assert (done.next_source, done.leader_epoch, done.drops) == (120, 4, [])
    assert copied(done) == list(batch(100, 20).records)


def test_nothing_comes_of_nothing() -> None:
    done = run(b"", position=17)
    assert (done.chunks, done.drops, done.next_source, done.leader_epoch) == ([], [], 17, -1)


def test_a_cut_off_batch_waits_for_the_next_fetch() -> None:
    whole, cut = batch(0, 3).to_bytes(), batch(3, 3).to_bytes()
    for length in (1, 11, 12, 17, 60, 61, len(cut) - 1):
        done = run(whole + cut[:length], merge_below=1000)
        assert done.next_source == 3
        assert copied(done) == list(records(0, 1, 2))
    assert run(cut[:-1], position=3).next_source == 3


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("merge_below", [0, 1000])
def test_any_buffer_will_do(kind: type[bytes], merge_below: int) -> None:
    done = run(kind(log(batch(0, 3), batch(3, 1))), merge_below=merge_below)
    assert copied(done) == list(records(0, 1, 2, 3))


def test_a_fetch_inside_a_batch_is_sliced() -> None:
    done = run(batch(100, 10).to_bytes(), position=104)
    (chunk,) = done.chunks
    assert (chunk.how, chunk.runs) == (How.SLICED, (OffsetRun(104, 6),))
    assert done.drops == []
    assert copied(done) == list(batch(100, 10).records[4:])


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_the_end_is_not_passed(merge_below: int) -> None:
    buffer = log(batch(0, 4), batch(4, 4), batch(8, 4))
    done = run(buffer, end=6, merge_below=merge_below)
    assert copied(done) == list(records(0, 1, 2, 3, 4, 5))
    assert done.next_source == 6
    assert run(buffer, end=8, merge_below=merge_below).next_source == 8
    nothing = run(buffer, end=0, merge_below=merge_below)
    assert (nothing.chunks, nothing.next_source, nothing.leader_epoch) == ([], 0, -1)


def test_both_ends_may_lie_in_one_batch() -> None:
    done = run(batch(0, 10, codec=4).to_bytes(), position=3, end=5)
    assert done.chunks[0].runs == (OffsetRun(3, 2),)
    assert done.next_source == 5


def test_holes_of_compaction_are_closed_and_kept_in_the_runs() -> None:
    source = Batch(100, records(101, 102, 105, 109), span=12, codec=3)
    done = run(source.to_bytes(), position=100)
    (chunk,) = done.chunks
    assert (chunk.how, chunk.runs) == (
        How.RENUMBERED,
        (OffsetRun(101, 2), OffsetRun(105, 1), OffsetRun(109, 1)),
    )
    assert (chunk.next_source, done.next_source) == (110, 112)
    assert header_of(chunk.data).codec == 3
    assert copied(done) == list(source.records)


def test_a_batch_whose_last_records_were_compacted_is_rebuilt() -> None:
    done = run(Batch(100, records(100, 101), span=9).to_bytes(), position=100)
    assert done.chunks[0].runs == (OffsetRun(100, 2),)
    assert done.chunks[0].how is How.RENUMBERED
    assert done.next_source == 109


def test_a_position_after_the_last_record_left_in_a_batch() -> None:
    done = run(log(Batch(100, records(100, 101), span=9), batch(109, 1)), position=104)
    assert done.drops == [Drop(104, 109, DropReason.EMPTY)]
    assert copied(done) == list(records(109))


def test_empty_batches_are_dropped() -> None:
    done = run(log(Batch(0, (), span=5), Batch(5, (), span=2), batch(7, 1)))
    assert done.drops == [Drop(0, 7, DropReason.EMPTY)]
    assert copied(done) == list(records(7))


def test_batches_before_the_position_are_dropped() -> None:
    done = run(log(batch(0, 2), batch(2, 2)), position=3)
    assert done.drops == [Drop(0, 2, DropReason.BEFORE_POSITION)]
    assert copied(done) == list(records(3))
    assert run(batch(0, 2).to_bytes(), position=3).next_source == 3


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_log_append_time_becomes_create_time(merge_below: int) -> None:
    source = batch(0, 3, attributes=LOG_APPEND, max_time=1_800_000_000_000)
    done = run(source.to_bytes(), merge_below=merge_below)
    (chunk,) = done.chunks
    assert chunk.how is How.REBUILT
    assert chunk.max_timestamp == 1_800_000_000_000
    assert {record.timestamp for record in copied(done)} == {1_800_000_000_000}


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_a_delete_horizon_costs_no_rebuild(merge_below: int) -> None:
    source = batch(0, 3, attributes=HORIZON, base_time=1_800_000_000_000)
    done = run(source.to_bytes(), merge_below=merge_below)
    (chunk,) = done.chunks
    assert chunk.how is How.FORWARDED
    assert chunk.data[61:] == source.to_bytes()[61:]
    assert copied(done) == list(source.records)


@pytest.mark.parametrize("bits", [0x80, 0x100, 0x4000, -0x8000])
@pytest.mark.parametrize("merge_below", [0, 1000])
def test_unknown_attributes_do_not_travel(bits: int, merge_below: int) -> None:
    source = batch(0, 2, attributes=bits, codec=2)
    done = run(log(source, batch(2, 2, codec=2)), merge_below=merge_below)
    assert [header_of(chunk.data).attributes for chunk in done.chunks] == [2] * len(done.chunks)
    assert copied(done) == list(records(0, 1, 2, 3))


def test_markers_are_dropped_and_leave_a_hole() -> None:
    transaction = batch(0, 2, attributes=TRANSACTIONAL, producer_id=5)
    done = run(log(transaction, marker(2, 5, COMMIT), batch(3, 1)), merge_below=1000)
    (chunk,) = done.chunks
    assert (chunk.how, chunk.runs) == (How.MERGED, (OffsetRun(0, 2), OffsetRun(3, 1)))
    assert done.drops == [Drop(2, 3, DropReason.CONTROL)]


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_aborted_records_are_dropped_until_the_marker(merge_below: int) -> None:
    def part(base: int, producer_id: int) -> Batch:
        return batch(base, 1, attributes=TRANSACTIONAL, producer_id=producer_id)

    buffer = log(
        part(0, 5),
        part(1, 6),
        batch(2, 1, producer_id=5),
        part(3, 5),
        marker(4, 5, ABORT),
        part(5, 5),
        marker(6, 5, COMMIT),
        part(7, 6),
        marker(8, 6, COMMIT),
        part(9, 5),
        marker(10, 5, ABORT),
    )
    done = run(buffer, aborted=[(5, 0), (5, 9)], merge_below=merge_below)
    assert [record.offset for record in copied(done)] == [1, 2, 5, 7]
    assert done.drops == [
        Drop(0, 1, DropReason.ABORTED),
        Drop(3, 4, DropReason.ABORTED),
        Drop(4, 5, DropReason.CONTROL),
        Drop(6, 7, DropReason.CONTROL),
        Drop(8, 9, DropReason.CONTROL),
        Drop(9, 10, DropReason.ABORTED),
        Drop(10, 11, DropReason.CONTROL),
    ]
    assert done.next_source == 11


def test_an_abort_that_began_before_this_fetch() -> None:
    buffer = log(batch(50, 1, attributes=TRANSACTIONAL, producer_id=5), marker(51, 5, ABORT), batch(52, 1))
    assert [record.offset for record in copied(run(buffer, position=50, aborted=[(5, 3)]))] == [52]


def test_a_marker_emptied_by_compaction_says_nothing() -> None:
    empty = marker(1, 5, ABORT).having(records=(), span=1)
    part = batch(2, 1, attributes=TRANSACTIONAL, producer_id=5)
    done = run(log(empty, part, marker(3, 5, ABORT)), position=1, aborted=[(5, 0)])
    assert done.chunks == []


def test_a_batch_larger_than_the_target_takes_is_split() -> None:
    big = Batch(0, tuple(Record(n, 1_700_000_000_000 + n, None, bytes(500), ()) for n in range(40)))
    done = run(big.to_bytes(), max_batch_bytes=4000)
    assert copied(done) == list(big.records)
    assert all(chunk.size <= 4000 for chunk in done.chunks)
    assert {chunk.how for chunk in done.chunks} == {How.REBUILT}


@pytest.mark.parametrize("merge_below", [0, 1000, 1_000_000])
def test_a_single_record_may_be_too_large(merge_below: int) -> None:
    big = Batch(0, (Record(0, 1, None, bytes(9000), ()),))
    done = run(log(big, batch(1, 1)), max_batch_bytes=4000, merge_below=merge_below)
    assert [chunk.size > 4000 for chunk in done.chunks] == [True, False]
    assert copied(done) == [big.records[0], plain_record(1)]


def test_a_damaged_batch_is_named() -> None:
    for merge_below in (0, 1000):
        for at in (21, 40, 61, 70):
            damaged = bytearray(batch(3, 2).to_bytes())
            damaged[at] ^= 1
            with pytest.raises(CorruptBatch, match="CRC-32C does not match") as caught:
                run(batch(0, 3).to_bytes() + damaged, merge_below=merge_below)
            assert caught.value.offset == 3


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_offsets_do_not_go_backwards(merge_below: int) -> None:
    with pytest.raises(CorruptBatch, match="begins before 3") as caught:
        run(log(batch(0, 3), batch(2, 3)), merge_below=merge_below)
    assert caught.value.offset == 2


@pytest.mark.parametrize("merge_below", [0, 1000])
@pytest.mark.parametrize("fields", [{"count": -1}, {"count": 9}, {"last_offset_delta": -1}])
def test_counts_that_cannot_be_are_refused(fields: dict[str, int], merge_below: int) -> None:
    with pytest.raises(CorruptBatch):
        run(batch(0, 3).having(**fields).to_bytes(), merge_below=merge_below)


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_unknown_codecs_are_refused(merge_below: int) -> None:
    with pytest.raises(CorruptBatch, match="codec 6"):
        run(batch(0, 3, attributes=6).to_bytes(), merge_below=merge_below)


def test_old_formats_are_refused() -> None:
    data = bytearray(batch(0, 1).to_bytes()[:40])
    data[16] = 1
    data[8:12] = (28).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="old message format"):
        run(bytes(data))


def test_the_result_travels_between_processes() -> None:
    done = run(log(batch(0, 2), marker(2, 5, COMMIT)))
    assert pickle.loads(pickle.dumps(done)) == done  # noqa: S301 - our own bytes
