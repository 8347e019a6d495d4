"""What is read of a fetch answer: each record at its own offset, also around holes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.wire import Record, records_in, visible
from tests.support.wire.forge import ABORT, Batch, batch, log, marker, plain_record

TRANSACTIONAL = 0x10
GAPS = Batch(10, tuple(map(plain_record, (10, 13, 17))), span=10)
ABORTED = batch(20, 5, attributes=TRANSACTIONAL, producer_id=5)
LOG = log(batch(0, 10), GAPS, ABORTED, marker(25, 5, ABORT), batch(26, 4, codec=4, producer_id=9))
KEPT = [*range(10), 10, 13, 17]


def read(position: int, end: int | None = None, **more: frozenset[int]) -> list[Record]:
    found = visible(LOG, position, end, aborted=[(5, 20)], **more)
    return [record for chunk in found.chunks for record in records_in(chunk)]


@given(position=st.integers(0, 30), end=st.none() | st.integers(0, 30))
def test_each_record_has_its_offset_in_the_log(position: int, end: int | None) -> None:
    last = 30 if end is None else end
    wanted = [plain_record(o) for o in [*KEPT, *range(26, 30)] if position <= o < last]
    assert read(position, end) == wanted


def test_what_others_wrote_and_what_was_aborted_can_be_left_in_or_out() -> None:
    assert [r.offset for r in read(0, without=frozenset({9}))] == KEPT
    everything = visible(LOG, 0)
    offsets = [r.offset for c in everything.chunks for r in records_in(c)]
    assert (offsets, everything.next_source) == ([*KEPT, *range(20, 25), *range(26, 30)], 30)


def test_a_range_that_ends_in_a_gap_is_read_to_its_end() -> None:
    """Compaction has removed what was before the end: the next batch shows that nothing is left there."""
    data = log(batch(0, 10), batch(30, 5))
    found = [visible(data, position, 20) for position in (0, 10, 15)]
    assert [f.next_source for f in found] == [20, 20, 20]
    assert [sum(c.count for c in f.chunks) for f in found] == [10, 0, 0]
    assert visible(log(batch(0, 10)), 10, 20).next_source == 10, "the next answer may have more"
