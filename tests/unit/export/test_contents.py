"""Every offset of a fetch answer is a record's or in a hole of its kind, however the log is fetched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.export.reading import contents
from drkit.export.record import ExportedRecord, Hole, HoleKind, Item, TimestampType
from drkit.wire import CorruptBatch
from tests.support.export.made import end_of, first_of
from tests.support.wire.forge import ABORT, COMMIT, Batch, batch, log, marker, plain_record

TRANSACTIONAL, LOG_APPEND_TIME = 0x10, 0x08
SKIP = frozenset({77})
BATCHES = (
    batch(0, 3),
    batch(3, 2, producer_id=5, attributes=TRANSACTIONAL),
    batch(5, 2, producer_id=6, attributes=TRANSACTIONAL, codec=4),
    marker(7, 5, ABORT),
    marker(8, 6, COMMIT),
    batch(9, 2, producer_id=77),
    Batch(11, (plain_record(12), plain_record(14)), span=6, codec=1),
    batch(20, 2, attributes=LOG_APPEND_TIME, max_time=1_800_000_000_000),
    Batch(22, (), span=3),
    batch(25, 1, producer_id=5, attributes=TRANSACTIONAL),
    marker(26, 5, COMMIT),
    batch(27, 2, codec=3),
)
ABORTED = [(5, 3)]
KINDS = {
    3: HoleKind.ABORTED, 4: HoleKind.ABORTED, 7: HoleKind.MARKER, 8: HoleKind.MARKER,
    9: HoleKind.COPIED_BACK, 10: HoleKind.COPIED_BACK, 11: HoleKind.COMPACTED, 13: HoleKind.COMPACTED,
    **dict.fromkeys(range(15, 20), HoleKind.COMPACTED), **dict.fromkeys(range(22, 25), HoleKind.COMPACTED),
    26: HoleKind.MARKER,
}  # fmt: skip
END = 29


def fetched(position: int, end: int, size: int) -> list[Item]:
    """The items of a range that is read with answers of some batches each, as a broker gives them."""
    items: list[Item] = []
    while position < end:
        first = next(n for n, each in enumerate(BATCHES) if each.end > position)
        some = BATCHES[first : first + size]
        # A broker names the transactions whose records are in the answer.
        aborted = [a for a in ABORTED if any(b.producer_id == 5 and b.base <= 7 for b in some)]
        cut_off = BATCHES[-1].to_bytes()[:-1]
        found = contents(log(*some) + cut_off, position, end, aborted=aborted, skip=SKIP)
        items += found.items
        assert found.next_offset > position
        position = found.next_offset
    return items


def by_offset(items: list[Item]) -> dict[int, ExportedRecord | HoleKind]:
    found: dict[int, ExportedRecord | HoleKind] = {}
    for item in items:
        for offset in range(first_of(item), end_of(item)):
            assert offset not in found
            found[offset] = item.kind if isinstance(item, Hole) else item
    return found


@given(st.integers(0, END - 1), st.integers(1, END), st.integers(1, len(BATCHES)))
def test_every_offset_is_accounted_for(position: int, end: int, size: int):
    found = by_offset(fetched(position, end, size))
    assert list(found) == list(range(position, end))
    for offset, each in found.items():
        if offset in KINDS:
            assert each is KINDS[offset]
        else:
            assert isinstance(each, ExportedRecord)
            assert (each.offset, each.key, each.value) == (offset, b"k%d" % offset, b"value %d" % offset)


def test_the_time_its_type_and_the_producer_are_those_of_the_log():
    found = by_offset(fetched(0, END, 99))
    plain, log_time, of_five = found[0], found[21], found[25]
    assert isinstance(plain, ExportedRecord)
    assert isinstance(log_time, ExportedRecord)
    assert isinstance(of_five, ExportedRecord)
    assert plain[1:3] == (1_700_000_000_000, TimestampType.CREATE_TIME)
    assert log_time[1:3] == (1_800_000_000_000, TimestampType.LOG_APPEND_TIME)
    assert (plain.producer_id, of_five.producer_id) == (-1, 5)


def test_a_gap_before_the_next_batch_reaches_to_the_end_asked_for():
    """All up to the end was compacted: the next batch begins after it."""
    found = contents(log(batch(50, 2)), 40, 45, aborted=(), skip=frozenset())
    assert (list(found.items), found.next_offset) == ([Hole(40, 45, HoleKind.COMPACTED)], 45)


def test_an_answer_without_a_whole_batch_says_nothing():
    for data in (b"", batch(0, 3).to_bytes()[:-1]):
        found = contents(data, 0, 9, aborted=(), skip=frozenset())
        assert (list(found.items), found.next_offset) == ([], 0)


def test_a_batch_that_is_not_sound_is_an_error():
    data = bytearray(batch(0, 3).to_bytes())
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        contents(bytes(data), 0, 9, aborted=(), skip=frozenset())
