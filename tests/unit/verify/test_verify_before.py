"""What MirrorMaker 2 copied, compared by content and order: a model, and each thing that can be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from drkit.offsets.alignment import Fingerprints
from drkit.verify.before import Before, Trimmed, compare_before
from drkit.verify.compare import Counts, DifferenceKind


def records(contents: Iterable[int], begin: int = 0) -> Fingerprints:
    out = Fingerprints()
    for i, content in enumerate(contents):
        out.add(begin + i, content)
    return out


def compared(
    source: Sequence[int], target: Sequence[int], *, again_from: int | None = None, **trimmed: bool
) -> Before:
    theirs = records(source, 100)
    found = compare_before(theirs, records(target, 500), Trimmed(**trimmed), again_from)
    seen = found.counts
    assert (seen.source_records, seen.target_records) == (len(source), len(target))
    return found


def kinds(found: Before) -> list[tuple[DifferenceKind, int | None, int | None]]:
    return [(f.kind, f.source_offset, f.target_offset) for f in found.findings]


@given(
    total=st.integers(1, 60),
    lives=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6),
)
def test_workers_that_are_killed_repeat_and_lose_nothing(total: int, lives: list[tuple[int, int]]):
    """Each worker copies on and dies; the next one goes back to some offset before."""
    source, target, reached = list(range(total)), [], 0
    for copied, back in [*lives, (total, 0)]:
        target += source[reached : reached + copied]
        reached = max(0, min(total, reached + copied) - back)
    target += source[reached:]
    found = compared(source, target)
    assert not found.findings
    assert found.counts.equal == total
    assert found.counts.repeated == len(target) - total


@given(lost=st.sets(st.integers(0, 49)), foreign=st.lists(st.integers(0, 49), max_size=10))
def test_what_is_lost_or_foreign_is_found(lost: set[int], foreign: list[int]):
    target = [i for i in range(50) if i not in lost]
    for number, at in enumerate(foreign):
        target.insert(min(at, len(target)), 1000 + number)
    found = compared(list(range(50)), target)
    assert {f.source_offset for f in found.findings if f.kind is DifferenceKind.MISSING} == {
        100 + i for i in lost
    }
    extra = [f.target_offset for f in found.findings if f.kind is DifferenceKind.EXTRA]
    assert extra == [500 + i for i, content in enumerate(target) if content >= 1000]
    assert found.counts.equal == 50 - len(lost)
    assert not found.counts.repeated


def test_records_in_another_order():
    found = compared([1, 2, 3, 4, 5], [1, 4, 5, 2, 3])
    assert kinds(found) == [(DifferenceKind.OUT_OF_ORDER, 101, 503), (DifferenceKind.OUT_OF_ORDER, 102, 504)]
    assert found.counts.equal == 3


def test_equal_records_one_after_the_other():
    found = compared([7, 7, 7, 1, 7, 2], [7, 7, 7, 1, 7, 2])
    assert found.counts == Counts(source_records=6, target_records=6, equal=6)
    repeated = compared([7, 7, 1, 2, 3], [7, 7, 1, 2, 1, 2, 3])
    assert (repeated.counts.equal, repeated.counts.repeated, repeated.findings) == (5, 2, [])


def test_what_follows_once_more_was_repeated():
    # The part after that begins with source offset 102: its records were copied, and then copied again there.
    found = compared([1, 2, 3, 4], [1, 2, 3], again_from=102)
    assert (found.counts.equal, found.counts.repeated, found.findings) == (2, 1, [])


def test_retention_on_either_side_is_no_difference():
    gone = compared([4, 5, 6], [1, 2, 3, 4, 5, 2, 3, 4, 5, 6], source_start=True)
    assert not gone.findings
    assert (gone.counts.deleted_at_source, gone.counts.equal, gone.counts.repeated) == (5, 3, 2)
    assert [k for k, *_ in kinds(compared([4, 5], [3, 4, 5]))] == [DifferenceKind.EXTRA]
    trimmed = compared([1, 2, 3, 4], [3, 4], target_start=True)
    assert not trimmed.findings
    assert trimmed.counts.deleted_at_target == 2
    assert [k for k, *_ in kinds(compared([1, 2, 3], [3]))] == [
        DifferenceKind.MISSING,
        DifferenceKind.MISSING,
    ]
    assert [f.source_offset for f in compared([1, 2, 3, 4], [2, 4], target_start=True).findings] == [102]


def test_compaction_on_either_side_is_no_difference():
    assert compared([1, 3], [1, 2, 3], source_compacted=True).counts.deleted_at_source == 1
    assert compared([1, 2, 3], [1, 3], target_compacted=True).counts.compacted == 1


def test_what_is_too_old_to_be_read_counts_on_neither_side():
    found = compared([8, 1, 2, 3], [9, 1, 2, 3], partial=True)
    assert not found.findings
    assert found.counts.equal == 3


def test_nothing_on_one_side():
    assert compared([], [1, 2], source_start=True).counts.deleted_at_source == 2
    assert [k for k, *_ in kinds(compared([1], []))] == [DifferenceKind.MISSING]
    assert not compared([], []).findings
