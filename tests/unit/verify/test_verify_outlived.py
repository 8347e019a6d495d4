"""Keys that were deleted on the source and live on the copy: found, and told from what was only cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st
import pytest

from drkit.model import ConsumedRecord, TopicPartition
from drkit.verify import compare as comparing
from drkit.verify.compare import (
    Comparison,
    Counts,
    Difference,
    DifferenceKind,
    RecordLocator,
    Rules,
    Segment,
)
from drkit.verify.ranges import PartitionView, Range, TakenOver, cut
from drkit.verify.task import SourceAgain, TargetAgain, find_outlived
from tests.support.examples import times

Step = tuple[str, int]
WRITES = st.tuples(st.sampled_from(["put", "delete"]), st.integers(0, 2))
OTHERS = st.tuples(st.sampled_from(["copy", "clean", "forget", "clean copy", "forget copy"]), st.just(0))
STEPS = st.lists(
    st.one_of(WRITES, WRITES, OTHERS, st.tuples(st.just("trim"), st.integers(0, 9))), max_size=30
)


def record(offset: int, key: bytes | None, *, has_value: bool = True, at: int = 0) -> ConsumedRecord:
    return ConsumedRecord(offset, key, b"v" if has_value else None, [], at)


def newest(log: Iterable[ConsumedRecord]) -> dict[bytes | None, ConsumedRecord]:
    return {r.key: r for r in log}


@dataclass
class Model:
    """A compacted partition and its copy; the time of a record is its offset on the source."""

    source: list[ConsumedRecord] = field(default_factory=list)
    copy: list[ConsumedRecord] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    start: int = 0
    end: int = 0
    frontier: int = 0
    copy_end: int = 100

    def walk(self, steps: Iterable[Step]) -> None:
        for what, number in steps:
            if what in {"put", "delete"}:
                self.source.append(record(self.end, b"k%d" % number, has_value=what == "put", at=self.end))
                self.end += 1
            elif what == "copy":
                self._replicate()
            elif what == "trim":
                self.start = max(self.start, min(number, self.frontier))
                self.source = [r for r in self.source if r.offset >= self.start]
            elif what.endswith("copy"):
                self.copy = self._cleaned(self.copy, forgets=what == "forget copy")
            else:
                self.source = self._cleaned(self.source, forgets=what == "forget")

    def _replicate(self) -> None:
        for r in [r for r in self.source if r.offset >= self.frontier]:
            self.copy.append(r._replace(offset=self.copy_end))
            self.segments.append(Segment(r.offset, self.copy_end, 1))
            self.copy_end += 1
        self.frontier = self.end

    @staticmethod
    def _cleaned(log: list[ConsumedRecord], *, forgets: bool) -> list[ConsumedRecord]:
        """What the cleaner leaves; in a later pass it removes tombstones, too."""
        left = sorted(newest(log).values(), key=lambda r: r.offset)
        return [r for r in left if r.value is not None] if forgets else left

    def outlived(self) -> set[bytes | None]:
        """Keys that live on the copy alone, and were not trimmed."""
        living = {k: r for k, r in newest(self.copy).items() if r.value is not None}
        return {k for k, r in living.items() if r.timestamp >= self.start} - newest(self.source).keys()


def read(log: Sequence[ConsumedRecord], first: int, end: int) -> Iterator[ConsumedRecord]:
    return (r for r in log if first <= r.offset < end)


def reported(before: Model, after: Model) -> tuple[Comparison, Counts, list[Difference]]:
    """What is found; both logs change between the comparison and the second look."""
    rules = Rules(source_compacted=True, target_compacted=True, source_start=lambda: before.start)
    found = Comparison(before.segments, rules)
    found.run(read(before.source, 0, before.frontier), iter(before.copy))
    source = SourceAgain(
        lambda first, end: read(after.source, first, end),
        (0, before.frontier),
        lambda: after.end,
        lambda: after.start,
    )
    copied = partial(read, after.copy)
    target = TargetAgain(copied, copied, before.copy_end, lambda: after.copy_end)
    return found, *find_outlived(found.living, RecordLocator(before.segments), source, target)


@given(STEPS)
@example([("put", 0), ("put", 1), ("copy", 0), ("delete", 0), ("forget", 0)])  # it lives on
@example([("put", 0), ("put", 1), ("put", 2), ("copy", 0), ("delete", 0), ("delete", 2), ("forget", 0)])
@example([("put", 0), ("copy", 0), ("put", 0), ("clean", 0)])  # the new record is not copied yet
@example([("put", 0), ("copy", 0), ("delete", 0), ("copy", 0), ("forget", 0)])  # deleted on both sides
@settings(max_examples=times(5))
def test_exactly_the_keys_that_are_nowhere_on_the_source(steps: list[Step]) -> None:
    model = Model()
    model.walk([*steps, ("copy", 0)] if len(steps) % 2 else steps)
    found, more, findings = reported(model, model)
    places = {r.offset: r for r in model.copy}
    assert {places[f.target_offset or 0].key for f in findings} == model.outlived()
    assert more == Counts(outlived=len(findings), deleted_at_source=-len(findings))
    assert {f.kind for f in findings} <= {DifferenceKind.OUTLIVED}
    assert all(f.source_offset == places[f.target_offset or 0].timestamp for f in findings)
    assert not found.counts.differences
    assert (found.counts + more).deleted_at_source >= 0


@given(STEPS, STEPS)
@example([("put", 0), ("copy", 0), ("delete", 0), ("clean", 0)], [("copy", 0), ("forget", 0)])
@example([("put", 0), ("copy", 0), ("delete", 0), ("forget", 0)], [("trim", 1)])
@example([("put", 0), ("copy", 0), ("delete", 0), ("forget", 0)], [("put", 0)])
@example(*[[("put", 1), ("copy", 0), ("delete", 1), ("forget", 0)]] * 2)
@settings(max_examples=times(5))
def test_logs_that_change_meanwhile_are_no_difference(steps: list[Step], later: list[Step]) -> None:
    before = Model()
    before.walk(steps)
    after = deepcopy(before)
    after.walk(later)
    _, _, findings = reported(before, after)
    places = {r.offset: r for r in before.copy}
    keys = {places[f.target_offset or 0].key for f in findings}
    # A key that was written again, and copied, meanwhile was on the source then.
    last = newest(after.copy)
    untouched = {key for key, found in newest(before.copy).items() if last.get(key) == found}
    assert before.outlived() & after.outlived() & untouched <= keys <= after.outlived()


def lone(*records: ConsumedRecord, keys_from: int = 0, start: int = 0) -> Comparison:
    rules = Rules(source_compacted=True, keys_from=keys_from, source_start=lambda: start)
    found = Comparison([Segment(0, 100, 50)], rules)
    found.run(iter(()), iter(records))
    return found


def test_records_without_a_key_are_never_judged() -> None:
    found = lone(record(100, None), record(101, None))
    assert (found.living.number(), found.counts.deleted_at_source) == (0, 2)


def test_what_mirror_maker_copied_of_aborted_transactions_is_not_judged() -> None:
    found = lone(record(100, b"aborted"), record(110, b"deleted"), keys_from=10)
    assert list(found.living.offsets()) == [110]


def test_what_retention_took_is_not_remembered() -> None:
    assert list(lone(record(100, b"old"), record(110, b"deleted"), start=10).living.offsets()) == [110]


def test_more_keys_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "_LIVING_KEYS", 5)
    found = lone(*(record(100 + n, b"k%d" % n) for n in range(9)))
    assert found.undecided == "over 5 keys of the compacted source wait for a later record"
    assert not found.living.number()


def test_a_record_of_others_deletes_a_key_on_the_copy() -> None:
    found = lone(record(100, b"k"), record(160, b"k", has_value=False))
    assert (found.counts.extra, found.living.number()) == (1, 0)


def test_another_record_at_the_expected_offset_counts_for_its_key_on_the_copy() -> None:
    found = Comparison([Segment(0, 100, 50)], Rules(source_compacted=True))
    found.run(iter([record(1, b"other")]), iter([record(100, b"k"), record(101, b"k", has_value=False)]))
    assert (found.counts.different, found.living.number()) == (1, 0)


def test_a_record_that_is_not_where_the_map_says_is_on_the_source() -> None:
    """Its key is passed before the copy's record is: no offset of the copy belongs to it."""
    old, new = [record(9, b"k", at=9)], [record(100, b"k", at=5)]
    found = Comparison([Segment(5, 100, 1)], Rules(source_compacted=True))
    found.run(iter(old), iter(new))
    assert found.living.number() == 1
    source = SourceAgain(partial(read, old), (0, 10), lambda: 10, int)
    target = TargetAgain(partial(read, new), partial(read, new), 101, lambda: 101)
    assert find_outlived(found.living, RecordLocator([Segment(5, 100, 1)]), source, target) == (Counts(), [])


@pytest.mark.parametrize(("source", "target"), [(True, True), (True, False), (False, True)])
def test_a_compacted_partition_is_one_range(*, source: bool, target: bool) -> None:
    at, end = TopicPartition("t", 0), 10_000_000
    view = PartitionView(
        at, at, source_start=0, source_end=end, frontier=end, target_start=0, target_end=end,
        segments=(Segment(0, 0, end),), source_compacted=source, target_compacted=target,
        taken_over=TakenOver(500, 500, committed=False),
    )  # fmt: skip
    (found,) = cut([view], 8)
    assert (found.source_to, found.keys_from, Range.from_json(found.to_json())) == (end, 500, found)
