"""Which position is looked at, and where the comparison of both sides begins."""

from __future__ import annotations

import pytest

from drkit.drill.position_rows import PositionAnswer, PositionEvidence, PositionForm
from drkit.drill.positions import CompareFrom, compare_from, is_pending, stored_question
from drkit.kafka.groups.requests import Committed
from drkit.model import TopicPartition
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.group_guard import OffsetMark
from drkit.offsets.translation import PartitionPosition
from tests.support.drill.logs import position

TP = TopicPartition("orders", 0)
MARK = OffsetMark("a", 8, 108, 1_000).text()
FROM_B = OffsetMark("b", 108, 9, 1_000).text()


def stored(there: Committed | None, metadata: str = "") -> PositionEvidence:
    row = PositionEvidence("g", *TP, PositionForm.STORED, upstream=9, committed=9)
    return stored_question(row, Committed(9, metadata), there, "a", 4_000)


def test_the_mark_says_which_source_offset_a_stored_position_is_for() -> None:
    own = stored(Committed(108, MARK))
    assert (own.upstream, own.downstream, own.committed, own.mark_age_seconds, own.known) == (
        8,
        108,
        9,
        3.0,
        None,
    )
    assert stored(None).known is PositionAnswer.NO_POSITION
    for other in (Committed(108), Committed(107, MARK), Committed(108, MARK.replace(" a ", " c "))):
        assert stored(other).known is PositionAnswer.NO_MARK
    echo = stored(Committed(108), FROM_B)
    assert (echo.upstream, echo.downstream, echo.known) == (9, 108, None), (
        "the other flow wrote the source offset"
    )


def place(source_start: int = 0, start: int = 100) -> PartitionPosition:
    """Source offsets 0 to 20 are at target offsets 100 to 120."""
    segments = SegmentMap.of([(0, 100, 20)])
    return PartitionPosition(segments, 20, start, 120, 120, source_start, 20)


@pytest.mark.parametrize(
    ("source_start", "start", "upstream", "downstream", "begin"),
    [
        (0, 100, 5, None, CompareFrom(5, 105, 105)),
        (0, 100, 5, 106, CompareFrom(5, 106, 106)),
        (8, 100, 5, None, CompareFrom(8, 108, 105, 105)),
        (8, 100, 5, 106, CompareFrom(8, 108, 106, 105)),
        (0, 110, 5, None, CompareFrom(10, 110, 110, 110)),
        (0, 110, 5, 111, CompareFrom(10, 110, 111, 110)),
        (8, 110, 5, None, CompareFrom(10, 110, 110, 110)),
    ],
)
def test_records_that_retention_has_removed_are_passed_over(
    source_start, start, upstream, downstream, begin
) -> None:
    assert compare_from(upstream, downstream, place(source_start, start)) == begin


def test_a_position_that_is_not_copied_yet_has_a_reason() -> None:
    found = compare_from(21, None, place())
    assert isinstance(found, Unavailable)
    assert "past the end" in found.reason


@pytest.mark.parametrize(
    ("change", "is_asked_again"),
    [
        ({}, False),
        ({"known": PositionAnswer.NOT_COPIED}, True),
        ({"known": PositionAnswer.NO_POSITION}, True),
        ({"known": PositionAnswer.NO_POSITION, "form": PositionForm.TRANSLATED}, False),
        ({"known": PositionAnswer.UNKNOWN}, False),
        ({"committed": 5, "mark_age_seconds": 59.0}, False),
        ({"committed": 5, "mark_age_seconds": 61.0}, True),
    ],
)
def test_what_the_copy_or_a_checkpoint_may_still_provide_is_asked_again(change, is_asked_again) -> None:
    assert is_pending(position("abcdef", 6, 2, 2)._replace(**change), 60.0) is is_asked_again
