"""Where another replicator stopped, found in made-up logs whose truth is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.model import SourceOffset, TargetOffset
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.alignment import Aligned, Fingerprints, NotAligned, align
from drkit.offsets.segments import UNKNOWN


def log(*records: tuple[int, int]) -> Fingerprints:
    """Records as (offset, content)."""
    out = Fingerprints()
    for offset, content in records:
        out.add(offset, content)
    return out


def plain(contents: range | list[int], first: int = 0) -> Fingerprints:
    return log(*((first + i, c) for i, c in enumerate(contents)))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Fingerprints, Fingerprints, int, int]:
    """A source, the target after some workers, the stored offset, and the last source offset copied.

    Each worker begins after a stored offset and copies on without a break; only the last one of all may
    have stored what it did.
    """
    offsets = sorted(draw(st.sets(st.integers(0, 200), min_size=5, max_size=60)))
    contents = draw(st.permutations(range(len(offsets))))
    source = list(zip(offsets, contents, strict=True))
    copied: list[int] = []
    stored = reached = -1
    for _ in range(draw(st.integers(1, 4))):
        until = draw(st.integers(stored, len(source) - 1))
        copied += range(stored + 1, until + 1)
        reached = max(reached, until)
        stored = draw(st.integers(stored, until))
    if not copied or stored < 0:
        copied, stored, reached = [0, *copied], 0, max(reached, 0)
    place, records = draw(st.integers(0, 50)), []
    for index in copied:
        records.append((place, source[index][1]))
        place += draw(st.sampled_from([1, 1, 1, 2]))
    return log(*source), log(*records), source[stored][0], source[reached][0]


@given(histories())
def test_the_last_copied_record_is_found_whatever_workers_did_before(
    history: tuple[Fingerprints, Fingerprints, int, int],
):
    source, target, stored, reached = history
    found = align(source, target, stored)
    assert isinstance(found, Aligned)
    assert found.next_source == reached + 1
    at = dict(zip(source.offsets, source.hashes, strict=True))
    there = dict(zip(target.offsets, target.hashes, strict=True))
    for up, down, count in found.segments:
        for i in range(count):
            assert at[up + i] == there[down + i]


@given(histories(), st.integers(1000, 2000))
def test_a_foreign_last_record_is_never_taken_for_a_copy(
    history: tuple[Fingerprints, Fingerprints, int, int], foreign: int
):
    source, target, stored, _ = history
    target.add(target.offsets[-1] + 1, foreign)
    assert isinstance(align(source, target, stored), NotAligned)


def test_a_record_that_is_missing_on_the_target_is_evidence():
    found = align(plain(range(20)), plain([5, 6, 7, 9, 10]), 5)
    assert isinstance(found, NotAligned)
    assert "target offset 2" in found.reason


def test_equal_records_differ_by_the_records_before_them():
    # Ten records with one content, three of them copied: the records before them show which one was last.
    source = plain([1, 2, 3, *[7] * 10])
    found = align(source, plain([1, 2, 3, 7, 7, 7]), 3)
    assert isinstance(found, Aligned)
    assert (found.next_source, found.behind) == (6, 2)
    assert isinstance(align(plain([7] * 10), plain([7, 7, 7], 40), 3), NotAligned)


def test_nothing_after_the_stored_offset_needs_no_proof():
    assert align(plain(range(3)), log(), 9) == Aligned(10, 0, ())
    assert isinstance(align(plain(range(30)), log(), 9), NotAligned)


def test_without_a_stored_offset_all_of_the_target_must_be_there():
    assert align(plain(range(9)), plain([0, 1, 2], 5), None) == Aligned(3, 3, ((0, 5, 3),))
    assert isinstance(align(plain(range(9)), plain([99, 1, 2], 5), None), NotAligned)


def test_what_was_copied_before_the_takeover_is_not_guessed_at():
    taken = SegmentMap.of([(0, 0, UNKNOWN), (80, 90, 20)])
    taken.append(100, 110, previous_end=110)
    for early in (0, 50, 79):
        assert isinstance(taken.translate(SourceOffset(early), 115), Unavailable)
    assert isinstance(taken.inverse(TargetOffset(89)), Unavailable)
    assert [taken.translate(SourceOffset(u), 115) for u in (80, 99, 100, 104, 200)] == [
        90,
        109,
        110,
        114,
        115,
    ]
    assert taken.inverse(TargetOffset(112)) == 102
    assert taken.known_from() == (80, 90)
    taken.trim(95)
    assert taken.translate(SourceOffset(99), 115) == 109


def test_equal_offsets_on_both_sides_do_not_make_the_unknown_known():
    taken = SegmentMap.of([(0, 0, UNKNOWN)])
    taken.append(100, 100, previous_end=100)
    assert isinstance(taken.translate(SourceOffset(99), 120), Unavailable)
    assert taken.translate(SourceOffset(100), 120) == 100
    taken.cut(90)
    assert taken.frontier(90) is None
