"""Segments against a model that lists every copied record."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import SourceOffset, TargetOffset
from drkit.offsets import SegmentMap, Unavailable
from tests.support.offsets.segments import build, runs


@given(runs)
def test_every_source_offset_translates_to_the_first_copied_record_at_or_after_it(
    shape: list[tuple[int, int, int]],
) -> None:
    segments, pairs, end = build(shape)
    for upstream in range(pairs[-1][0] + 3):
        expected = next((d for u, d in pairs if u >= upstream), end)
        assert segments.translate(SourceOffset(upstream), end) == expected


@given(runs)
def test_every_target_offset_leads_back_to_the_first_record_at_or_after_it(
    shape: list[tuple[int, int, int]],
) -> None:
    segments, pairs, end = build(shape)
    for downstream in range(end):
        expected = next(u for u, d in pairs if d >= downstream)
        assert segments.inverse(TargetOffset(downstream)) == expected
    assert segments.frontier(end) == pairs[-1][0] + 1


@given(runs, st.integers(0, 60))
def test_a_target_that_lost_its_tail_keeps_what_is_left(
    shape: list[tuple[int, int, int]], where: int
) -> None:
    segments, pairs, end = build(shape)
    cut = min(where, end)
    segments.cut(cut)
    left = [(u, d) for u, d in pairs if d < cut]
    if left:
        assert [segments.translate(SourceOffset(u), cut) for u, _ in left] == [d for _, d in left]
        # Nothing may be taken for copied that is gone.
        behind = segments.translate(SourceOffset(left[-1][0] + 1), cut)
        assert not isinstance(behind, Unavailable)
        assert behind <= cut
    elif cut == 0:
        assert len(segments) == 0


@given(runs, st.integers(0, 40))
def test_a_source_that_lost_its_tail_is_followed_from_there(
    shape: list[tuple[int, int, int]], where: int
) -> None:
    segments, pairs, end = build(shape)
    back = min(where, pairs[-1][0])
    segments.append(back, end, previous_end=end)
    kept = [(u, d) for u, d in pairs if u < back]
    for upstream, downstream in kept:
        assert segments.translate(SourceOffset(upstream), end + 5) == downstream
    assert segments.translate(SourceOffset(back + 2), end + 5) == end + 2


def test_a_plain_topic_needs_one_segment_for_ever() -> None:
    segments = SegmentMap()
    for start in range(0, 1000, 10):
        segments.append(start, start, previous_end=start)
    assert segments.segments() == [(0, 0)]


def test_nothing_copied_is_said_and_not_guessed() -> None:
    assert isinstance(SegmentMap().translate(SourceOffset(3), 0), Unavailable)
    assert isinstance(SegmentMap().inverse(TargetOffset(3)), Unavailable)
    assert SegmentMap().frontier(0) is None


@pytest.mark.parametrize("start", [0, 7, 12, 25])
def test_trimming_below_the_log_start_changes_no_answer_after_it(start: int) -> None:
    segments, pairs, end = build([(0, 0, 10), (3, 1, 10), (1, 1, 10)])
    segments.trim(start)
    for upstream, downstream in pairs:
        if downstream >= start:
            assert segments.translate(SourceOffset(upstream), end) == downstream


@given(runs, st.integers(1, 5))
def test_a_map_survives_its_bytes_and_its_parts(shape: list[tuple[int, int, int]], size: int) -> None:
    segments, _, _ = build(shape)
    whole = segments.triples()
    pieces = [segments.part(i, i + size) for i in range(0, len(segments), size)]
    assert [len(p) for p in pieces[:-1]] == [size] * (len(pieces) - 1)
    read = SegmentMap()
    for piece in pieces:
        read.join(SegmentMap.from_bytes(piece.to_bytes()))
    assert read.triples() == whole
    # The format of the topic: column by column, big-endian.
    numbers = [n for column in zip(*whole, strict=True) for n in column]
    assert segments.to_bytes() == struct.pack(f">{len(numbers)}q", *numbers)
    copied = segments.copy()
    copied.append(10_000, 10_000, previous_end=9_000)
    assert segments.triples() == whole


@pytest.mark.parametrize("length", [1, 8, 16, 25])
def test_bytes_that_are_no_columns_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        SegmentMap.from_bytes(bytes(length))
