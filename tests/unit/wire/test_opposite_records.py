"""Batches of the flow in the other direction: left out, or an alarm after the cut."""

from __future__ import annotations

import pytest

from drkit.wire import Drop, DropReason, Returned
from drkit.wire.header import TRANSACTIONAL_BIT as TRANSACTIONAL
from tests.support.wire.forge import ABORT, batch, copied, log, marker, run


def test_records_of_the_opposite_flow_are_skipped() -> None:
    buffer = log(
        batch(0, 2, producer_id=41), batch(2, 1, producer_id=42), batch(3, 2, producer_id=43), batch(5, 1)
    )
    for merge_below in (0, 1000):
        done = run(buffer, skip_producer_ids=frozenset({41, 42}), merge_below=merge_below)
        assert done.drops == [Drop(0, 3, DropReason.LOOP)]
        assert done.looped == {41: 2, 42: 1}
        assert [record.offset for record in copied(done)] == [3, 4, 5]
    everything = run(buffer, skip_producer_ids=frozenset({41, 42, 43, -1}))
    assert (everything.chunks, everything.next_source) == ([], 6)


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_from_the_cut_on_nothing_is_left_out(merge_below: int) -> None:
    buffer = log(batch(0, 2, producer_id=41), batch(2, 2), batch(4, 3, producer_id=41), batch(7, 2))
    some = {"skip_producer_ids": frozenset({41}), "merge_below": merge_below}
    done = run(buffer, skip_before=2, **some)
    assert done.returned == Returned(4, 41)
    assert (done.looped, done.next_source) == ({41: 2}, 4)
    assert [record.offset for record in copied(done)] == [2, 3], "all before it, and nothing after it"
    assert run(buffer, skip_before=6, **some).returned == Returned(4, 41), "its last offset is after the cut"
    before = run(buffer, skip_before=7, **some)
    assert (before.returned, before.looped, before.next_source) == (None, {41: 5}, 9)
    assert run(buffer, position=4, skip_before=0, **some).returned == Returned(4, 41)
    assert run(buffer, position=7, skip_before=0, **some).returned is None


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_before_the_cut_a_rebuilt_partition_takes_theirs_as_anybody_s(merge_below: int) -> None:
    buffer = log(batch(0, 2, producer_id=41), batch(2, 2), batch(4, 3, producer_id=41), batch(7, 2))
    some = {"skip_producer_ids": frozenset({41}), "merge_below": merge_below, "copy_again": True}
    for cut, taken, at in ((4, range(4), 4), (6, range(4), 4), (7, range(9), None)):
        done = run(buffer, skip_before=cut, **some)
        assert done.returned == (Returned(at, 41) if at is not None else None), "also where the cut is inside"
        assert (done.looped, [r.offset for r in copied(done)]) == ({}, [*taken])
    assert run(buffer, position=4, skip_before=2, **some).returned == Returned(4, 41)
    assert [r.offset for r in copied(run(buffer, position=7, skip_before=2, **some))] == [7, 8]


@pytest.mark.parametrize("merge_below", [0, 1000])
def test_a_tail_that_the_target_keeps_is_left_out_up_to_its_end(merge_below: int) -> None:
    """It is after the cut, between records of clients; the same producer later is an alarm."""
    buffer = log(
        batch(0, 2), batch(2, 1, producer_id=77), batch(3, 1), batch(4, 2, producer_id=77), batch(6, 1)
    )
    some = {"skip_producer_ids": frozenset({41}), "skip_before": 0, "merge_below": merge_below}
    done = run(buffer, kept=(6, frozenset({77})), **some)
    assert (done.returned, done.looped, done.next_source) == (None, {77: 3}, 7)
    assert [record.offset for record in copied(done)] == [0, 1, 3, 6]
    for end in (5, 4):
        done = run(buffer, kept=(end, frozenset({77})), **some)
        assert done.returned == Returned(4, 77)
        assert [record.offset for record in copied(done)] == [0, 1, 3]
    assert len(copied(run(buffer, **some))) == 7, "of another partition they are a client's"
    both = log(batch(0, 1, producer_id=77), batch(1, 1, producer_id=41))
    assert run(both, kept=(6, frozenset({77})), **some).returned == Returned(1, 41)


def test_markers_and_aborted_records_after_the_cut_are_no_alarm() -> None:
    """A fence of the flow that ended may be written once more; no consumer sees anything of it."""
    aborted = batch(0, 2, attributes=TRANSACTIONAL, producer_id=41)
    done = run(
        log(aborted, marker(2, 41, ABORT), batch(3, 1)),
        aborted=[(41, 0)], skip_producer_ids=frozenset({41}), skip_before=0,
    )  # fmt: skip
    assert done.returned is None
    assert [record.offset for record in copied(done)] == [3]
