"""Positions of groups against a model that lists every copied record; and what is said at the edges."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.segments import UNKNOWN
from drkit.offsets.translation import AT_END, BEHIND_COPY, Exact, PartitionPosition
from tests.support.offsets.segments import place, runs


@given(runs, st.integers(0, 3))
def test_the_first_record_read_is_the_next_one(shape: list[tuple[int, int, int]], hole: int) -> None:
    """P26: the translated offset leads to the next record, exactly."""
    at, pairs = place(shape, hole)
    assert at.frontier is not None
    for upstream in range(at.frontier + 1):
        found = at.forward(upstream)
        assert isinstance(found, Exact)
        expected = next((d for u, d in pairs if u >= upstream), None)
        assert found.offset == (at.copied_end if expected is None else expected)
        assert (found.note == AT_END) == (expected is None)


@given(runs, st.integers(0, 3))
def test_and_back(shape: list[tuple[int, int, int]], hole: int) -> None:
    at, pairs = place(shape, hole)
    for downstream in range(at.end + 1):
        found = at.backward(downstream)
        assert isinstance(found, Exact)
        expected = next((u for u, d in pairs if d >= downstream), None)
        assert found.offset == (at.frontier if expected is None else expected)


@given(runs, st.integers(1, 9))
def test_what_is_not_copied_yet_is_no_position(shape: list[tuple[int, int, int]], ahead: int) -> None:
    """P26: what is not copied yet is said; no position beyond the end, so no negative lag."""
    at, _ = place(shape)
    assert at.frontier is not None
    open_end = replace(at, source_end=None)
    assert isinstance(open_end.forward(at.frontier + ahead), Unavailable)
    # Once nothing more comes the group has read all that there is.
    gone = replace(open_end, frozen=True).forward(at.frontier + ahead)
    assert isinstance(gone, Exact)
    assert gone.offset == at.copied_end
    assert gone.note.startswith(BEHIND_COPY)


@given(runs, st.integers(0, 30))
def test_what_the_target_has_removed_is_said(shape: list[tuple[int, int, int]], start: int) -> None:
    at, pairs = place(shape)
    at = replace(at, start=min(start, at.copied_end))
    for upstream, downstream in pairs:
        found = at.forward(upstream)
        assert isinstance(found, Exact)
        assert found.offset == max(downstream, at.start)
        assert found.note.startswith("behind retention") == (downstream < at.start)


def test_behind_the_sources_retention_the_target_has_more() -> None:
    at, _ = place([(0, 0, 10)])
    at = replace(at, source_start=4)
    assert at.forward(2) == Exact(2, "behind retention: the source begins at 4, the target has more")
    assert at.forward(4) == Exact(4)
    assert at.backward(2) == Exact(4, "behind retention: the source begins at 4", 2)


def test_empty_partitions() -> None:
    never = PartitionPosition(source_start=7, source_end=7)
    assert never.forward(7) == Exact(0, "empty: the log start")
    assert never.backward(0) == Exact(7, "empty: the source's log start")
    assert isinstance(replace(never, source_end=9).forward(8), Unavailable)
    assert isinstance(replace(never, source_start=None, source_end=None).forward(7), Unavailable)
    gone = replace(never, source_start=None, source_end=None, frozen=True)
    assert gone.forward(0) == Exact(0, "empty: the log start")
    assert gone.forward(7) == Exact(0, "nothing copied: the log start", reached=False)
    # Only aborted records: passed, nothing copied.
    passed = PartitionPosition(frontier=5, source_start=0, source_end=5)
    assert passed.forward(5) == passed.forward(0) == Exact(0, "empty: the log start")
    assert passed.backward(0) == Exact(5, AT_END)
    cut = replace(passed, source_start=None, source_end=None, frozen=True)
    assert cut.forward(6) == Exact(0, f"{BEHIND_COPY}: the copy has reached 5", reached=False)
    # There are foreign records.
    assert replace(never, end=3, copied_end=3).forward(7) == Exact(3, "nothing copied: the end")


@pytest.mark.parametrize(("forward", "offset"), [(True, 16), (False, 13)])
def test_an_offset_that_cannot_be_is_refused(*, forward: bool, offset: int) -> None:
    at, _ = place([(0, 0, 10)])
    found = at.forward(offset) if forward else at.backward(offset)
    assert isinstance(found, Unavailable)
    assert "end" in found.reason


def test_what_another_replicator_copied_is_not_guessed() -> None:
    at = PartitionPosition(SegmentMap.of([(0, 0, UNKNOWN), (100, 90, 10)]), 110, 0, 100, 100)
    assert isinstance(at.forward(50), Unavailable)
    assert isinstance(at.backward(50), Unavailable)
    assert at.forward(104) == Exact(94)
