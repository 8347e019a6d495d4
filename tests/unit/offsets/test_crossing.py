"""Positions around a crossing: where both logs have the same records in another order."""

from __future__ import annotations

import pytest

from drkit.offsets.crossing import Crossing
from drkit.offsets.segments import OPEN, SegmentMap
from drkit.offsets.translation import Exact, PartitionPosition

# The source: 0-9 copied, 10-13 and 16-17 of clients, 14-15 the tail, 18 on of clients. The target: 0-9, the
# tail 10-11, a marker at 12, then 13-18 what clients wrote, and what follows.
CROSSING = Crossing(10, 16, 10, 13)
SEGMENTS = SegmentMap.of([(0, 0, 10), (10, 13, 4), (16, 17, OPEN)])
HERE = PartitionPosition(SEGMENTS, 20, 0, 21, 21, 0, 20, crossings=(CROSSING,))


def forward(place: PartitionPosition, offset: int) -> int | None:
    found = place.forward(offset)
    return found.offset if isinstance(found, Exact) else None


def backward(place: PartitionPosition, offset: int) -> int | None:
    found = place.backward(offset)
    return found.offset if isinstance(found, Exact) else None


def test_before_and_after_it_positions_are_exact_and_inside_there_is_none() -> None:
    assert [forward(HERE, o) for o in (0, 9, 10)] == [0, 9, 10], "the tail is read after what was copied"
    assert [forward(HERE, o) for o in range(11, 16)] == [None] * 5
    assert [forward(HERE, o) for o in (16, 17, 20)] == [17, 18, 21]
    assert [backward(HERE, o) for o in (0, 9, 10)] == [0, 9, 10]
    assert [backward(HERE, o) for o in range(11, 17)] == [None] * 6
    assert [backward(HERE, o) for o in (17, 18, 21)] == [16, 17, 20]


def test_it_is_inverted_with_the_offset_at_which_it_ends() -> None:
    assert HERE.inverted_crossings() == (Crossing(10, 17, 10, 16),)
    turned = SegmentMap.of([(0, 0, 10), (13, 10, 4), (17, 16, 4)])
    there = PartitionPosition(turned, 21, 0, 20, 20, 0, 21, crossings=HERE.inverted_crossings())
    for offset in range(22):
        assert forward(there, offset) == backward(HERE, offset), offset
    for offset in range(21):
        assert backward(there, offset) == forward(HERE, offset), offset
    assert there.inverted_crossings() == (Crossing(10, 16, 10, 17),)


@pytest.mark.parametrize("frontier", [10, 12, 15])
def test_until_it_is_copied_nothing_on_the_target_is_behind_it(frontier: int) -> None:
    copied = frontier - 10 if frontier < 14 else 4
    known = SegmentMap.of([(0, 0, 10), *([(10, 13, OPEN)] if copied else [])])
    end = 13 + copied
    place = PartitionPosition(known, frontier, 0, end, end if copied else 10, 0, 20, crossings=(CROSSING,))
    assert [backward(place, o) for o in (10, *range(11, end + 1))] == [10, *[None] * (end - 10)]
    assert forward(place, 10) == 10
    assert forward(place, 16) is None, "it is not copied yet"


def test_where_the_source_is_lost_before_it_was_copied_inside_has_no_position() -> None:
    """The side with the tail is promoted; what clients wrote since, and was not copied, is lost."""
    known = SegmentMap.of([(0, 0, 10), (10, 13, OPEN)])
    place = PartitionPosition(known, 12, 0, 15, 15, frozen=True, crossings=(CROSSING,))
    assert [forward(place, o) for o in (9, 10, 11, 15)] == [9, 10, None, None]
    found = place.forward(16)
    assert isinstance(found, Exact)
    assert (found.offset, found.reached) == (15, False)
    assert [backward(place, o) for o in (10, 11, 15)] == [10, None, None]


def test_a_tail_without_any_record_of_clients_before_its_end() -> None:
    """The position after it is the end of the tail, not the offset of the last copy."""
    known, crossing = SegmentMap.of([(0, 0, 10)]), Crossing(10, 12, 10, 13)
    place = PartitionPosition(known, 12, 0, 13, 10, 0, 12, crossings=(crossing,))
    assert [forward(place, o) for o in (9, 10, 11, 12)] == [9, 10, None, 13]
    assert [backward(place, o) for o in (10, 11, 12, 13)] == [10, None, None, 12]


def test_what_retention_has_removed_of_it_is_skipped_by_name() -> None:
    place = PartitionPosition(SEGMENTS, 20, 15, 21, 21, 0, 20, crossings=(CROSSING,))
    found = place.forward(10)
    assert isinstance(found, Exact)
    assert (found.offset, found.skipped) == (15, 5)
