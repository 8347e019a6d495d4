"""Every way in which a copy can differ is found, named and told from what only looks like a difference."""

from __future__ import annotations

from collections.abc import Iterable
import random

import pytest

from drkit.model import ConsumedRecord
from drkit.verify.compare import Comparison, Counts, DifferenceKind, Rules, Segment, compare

T0 = 1_700_000_000_000


def record(offset: int, number: int, **changes: object) -> ConsumedRecord:
    """Record `number` of the source, standing at an offset."""
    made = ConsumedRecord(offset, b"k%d" % number, b"v%d" % number, [("h", b"x")], T0 + number)
    return made._replace(**changes)  # type: ignore[arg-type]


def source(count: int) -> list[ConsumedRecord]:
    return [record(i, i) for i in range(count)]


def copy_of(count: int, base: int = 100) -> list[ConsumedRecord]:
    return [record(base + i, i) for i in range(count)]


def run(
    theirs: Iterable[ConsumedRecord],
    ours: Iterable[ConsumedRecord],
    *segments: tuple[int, int, int],
    rules: Rules | None = None,
) -> Comparison:
    return compare(iter(theirs), iter(ours), [Segment(*s) for s in segments], rules or Rules())


def kinds(found: Comparison) -> list[tuple[DifferenceKind, int | None, int | None]]:
    return [(f.kind, f.source_offset, f.target_offset) for f in found.findings]


def test_equal() -> None:
    found = run(source(50), copy_of(50), (0, 100, 50))
    assert found.counts == Counts(source_records=50, target_records=50, equal=50)
    assert not found.findings


def test_holes_on_either_side_are_no_differences() -> None:
    # Source offsets 10–19 were aborted, 20 is a marker; the target has a marker of its own at 110.
    theirs = [r for r in source(40) if not 10 <= r.offset <= 20]
    ours = [record(100 + i, i) for i in range(10)] + [record(111 + i, 21 + i) for i in range(19)]
    found = run(theirs, ours, (0, 100, 10), (21, 111, 19))
    assert found.counts.equal == 29
    assert not found.counts.differences


@pytest.mark.parametrize(
    ("field", "value"),
    [("value", b"other"), ("key", None), ("timestamp", T0), ("headers", [("h", None)]), ("value", None)],
)
def test_a_changed_field_is_named(field: str, value: object) -> None:
    ours = copy_of(50)
    ours[7] = ours[7]._replace(**{field: value})  # type: ignore[arg-type]
    found = run(source(50), ours, (0, 100, 50))
    assert kinds(found) == [(DifferenceKind.DIFFERENT, 7, 107)]
    assert found.findings[0].fields == (field,)
    assert found.findings[0].evidence.startswith(f"{field} differ")
    assert found.counts.equal == 49


def test_a_lost_record_and_all_that_moved_up() -> None:
    ours = [record(100 + i - (i > 7), i) for i in range(50) if i != 7]
    found = run(source(50), ours, (0, 100, 50))
    assert (DifferenceKind.MISSING, 7, 107) in kinds(found)
    assert found.counts == Counts(source_records=50, target_records=49, equal=7, missing=1, misplaced=42)


def test_a_lost_record_whose_offset_is_empty() -> None:
    found = run(source(50), [r for r in copy_of(50) if r.offset != 107], (0, 100, 50))
    assert kinds(found) == [(DifferenceKind.MISSING, 7, 107)]
    assert found.counts.equal == 49


def test_a_record_twice() -> None:
    ours = [record(100 + i + (i > 7), i) for i in range(50)]
    ours.insert(8, record(108, 7))
    found = run(source(50), ours, (0, 100, 50))
    assert found.counts.extra == 1
    assert found.counts.misplaced == 42
    assert found.counts.missing == found.counts.different == found.counts.out_of_order == 0


def test_a_foreign_record_after_and_between() -> None:
    ours = [*copy_of(10), record(110, 990), *(record(111 + i, 10 + i) for i in range(10)), record(121, 991)]
    found = run(source(20), ours, (0, 100, 10), (10, 111, 10))
    assert kinds(found) == [(DifferenceKind.EXTRA, None, 110), (DifferenceKind.EXTRA, None, 121)]
    assert "not written by this flow" in found.findings[0].evidence
    assert found.counts.equal == 20


def test_two_neighbours_swapped() -> None:
    ours = copy_of(50)
    ours[7], ours[8] = ours[8]._replace(offset=107), ours[7]._replace(offset=108)
    found = run(source(50), ours, (0, 100, 50))
    assert sorted(kinds(found)) == [
        (DifferenceKind.OUT_OF_ORDER, 7, 108),
        (DifferenceKind.OUT_OF_ORDER, 8, 107),
    ]
    assert found.counts.misplaced == 0


def test_a_record_that_came_late() -> None:
    late = [r for r in copy_of(50) if r.offset != 107] + [record(150, 7)]
    found = run(source(50), late, (0, 100, 50))
    assert kinds(found) == [(DifferenceKind.OUT_OF_ORDER, 7, 150)]


def test_what_retention_took_at_the_source() -> None:
    theirs = [r for r in source(50) if r.offset >= 20]
    found = run(theirs, copy_of(50), (0, 100, 50), rules=Rules(source_start=lambda: 20))
    assert found.counts == Counts(source_records=30, target_records=50, equal=30, deleted_at_source=20)


def test_without_retention_the_same_is_a_difference() -> None:
    found = run([r for r in source(50) if r.offset >= 20], copy_of(50), (0, 100, 50))
    assert found.counts.extra == 20


def test_what_compaction_took_at_the_source() -> None:
    theirs = [r for r in source(50) if r.offset % 5 == 0]
    found = run(theirs, copy_of(50), (0, 100, 50), rules=Rules(source_compacted=True))
    assert found.counts.deleted_at_source == 40
    assert not found.counts.differences


def test_what_retention_took_at_the_target() -> None:
    ours = [r for r in copy_of(50) if r.offset >= 120]
    found = run(source(50), ours, (0, 100, 50), rules=Rules(target_start=lambda: 120))
    assert found.counts.deleted_at_target == 20
    assert not found.counts.differences


def test_compaction_at_the_target_needs_a_later_record_of_the_key() -> None:
    theirs = [record(i, i, key=b"k%d" % (i % 5)) for i in range(50)]
    theirs[44] = theirs[44]._replace(value=None)
    ours = [r._replace(offset=100 + r.offset) for r in theirs[43:] if r.offset != 44]
    rules = Rules(target_compacted=True)
    found = run(theirs, ours, (0, 100, 50), rules=rules)
    assert found.counts.compacted == 44  # 43 superseded ones and the tombstone
    assert not found.counts.differences
    lost = run(theirs, [r for r in ours if r.offset != 148], (0, 100, 50), rules=rules)
    assert kinds(lost) == [(DifferenceKind.MISSING, 48, 148)]


def test_everything_missing_and_everything_foreign() -> None:
    found = run(source(30), [], (0, 100, 30))
    assert found.counts.missing == 30
    found = run([], copy_of(30))
    assert found.counts.extra == 30


def test_large_contents_are_not_kept() -> None:
    big = bytes(1 << 20)
    ours = [r._replace(value=big) for r in copy_of(3)]
    found = run(source(3), ours, (0, 100, 3))
    assert found.counts.different == 3
    assert all(len(f.evidence) < 500 for f in found.findings)


def test_more_strays_than_are_remembered() -> None:
    ours = [r._replace(value=b"other") for r in copy_of(25_000)]
    found = run(source(25_000), ours, (0, 100, 25_000))
    assert found.counts.different == 25_000
    assert len(found.findings) == 1000


@pytest.mark.parametrize("seed", range(20))
def test_random_defects_are_all_found(seed: int) -> None:
    """The number of findings never falls short of what was done to the copy."""
    chance = random.Random(seed)
    ours = copy_of(400)
    changed = set(chance.sample(range(400), 5))
    lost = set(chance.sample(sorted(set(range(400)) - changed), 5))
    ours = [r._replace(value=b"x%d" % i) if i in changed else r for i, r in enumerate(ours)]
    ours = [r for i, r in enumerate(ours) if i not in lost]
    found = run(source(400), ours, (0, 100, 400))
    assert {f.source_offset for f in found.findings if f.kind is DifferenceKind.DIFFERENT} == changed
    assert {f.source_offset for f in found.findings if f.kind is DifferenceKind.MISSING} == lost
    assert found.counts.equal == 390
