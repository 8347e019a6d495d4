"""Records and their copies, paired by the map: equal, or the first offset that differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.loss.content import Begin, MayLack, PairingResult, Side, compared, window_before
from drkit.offsets import SegmentMap
from drkit.wire import Piece

STRICT = MayLack()
LOOSE = MayLack(old_compacted=True, new_compacted=True)
Log = dict[int, bytes]


def pieces(log: Log) -> list[Piece]:
    return [(offset, 1_000 + offset % 2, body) for offset, body in sorted(log.items())]


def copied(old: Log, gap_after: Iterable[int] = ()) -> tuple[SegmentMap, Log, dict[int, int]]:
    """A copy with a hole after some records; the map, the copy, and old offset → new offset."""
    segments, new, places, at = SegmentMap(), {}, {}, 0
    for offset, body in sorted(old.items()):
        segments.append(offset, at, previous_end=at)
        new[at], places[offset] = body, at
        segments.close(at + 1)
        at += 2 if offset in set(gap_after) else 1
    return segments, new, places


def run(
    segments: SegmentMap, old: list[Piece], new: list[Piece], rules: MayLack = STRICT, step: int = 3
) -> PairingResult:
    """Give the records in parts."""
    left = {Side.OLD: list(old), Side.NEW: list(new)}
    asking = compared(segments, rules)
    asked = next(asking)
    while True:
        part, left[asked] = left[asked][:step], left[asked][step:]
        try:
            asked = asking.send(part)
        except StopIteration as end:
            found: PairingResult = end.value
            return found


logs = st.dictionaries(st.integers(0, 60), st.binary(min_size=1, max_size=1), max_size=25)


def copies_of(new: Log, places: dict[int, int], old: Log) -> list[Piece]:
    """The copy with the times of its records on the other side."""
    times = {places[o]: t for o, t, _ in pieces(old)}
    return [(at, times[at], body) for at, body in sorted(new.items())]


@given(logs, st.sets(st.integers(0, 60)), st.integers(1, 7))
def test_a_copy_equals_its_source_whatever_its_holes_and_the_parts(old: Log, gaps: set[int], step: int):
    segments, new, places = copied(old, gaps)
    found = run(segments, pieces(old), copies_of(new, places, old), step=step)
    assert found == PairingResult(len(old), None, next=max(old) + 1 if old else 0)


@given(logs.filter(len), st.data())
def test_the_first_difference_is_found(old: Log, data: st.DataObject):
    """From some record on, the old log is another one: other contents, other offsets, fewer records."""
    segments, new, places = copied(old, data.draw(st.sets(st.integers(0, 60))))
    split = data.draw(st.sampled_from(sorted(old)))
    others = data.draw(st.dictionaries(st.integers(split, 60), st.binary(min_size=2, max_size=2)))
    grown = {o: b for o, b in old.items() if o < split} | others
    found = run(segments, pieces(grown), copies_of(new, places, old))
    assert found.differs_from == min({split, *others})
    assert found.equal == sum(o < split for o in old)


@given(logs, st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_what_compaction_removed_is_no_difference(old: Log, here: set[int], there: set[int]):
    segments, new, places = copied(old)
    copies = [p for p in copies_of(new, places, old) if p[0] not in there]
    left = [p for p in pieces(old) if p[0] not in here]
    found = run(segments, left, copies, LOOSE)
    assert found.differs_from is None
    both = [o for o in old if o not in here and places[o] not in there]
    assert found.equal == len(both)


@pytest.mark.parametrize("rules", [STRICT, LOOSE])
def test_another_content_and_a_record_in_a_hole_are_differences_also_with_compaction(rules: MayLack):
    segments, new, places = copied({0: b"a", 1: b"b", 5: b"c"})
    copies = copies_of(new, places, {0: b"a", 1: b"b", 5: b"c"})
    assert run(segments, pieces({0: b"a", 1: b"X", 5: b"c"}), copies, rules).differs_from == 1
    assert run(segments, pieces({0: b"a", 1: b"b", 3: b"X", 5: b"c"}), copies, rules).differs_from == 3
    late = [(o, t + 1, b) if o == 1 else (o, t, b) for o, t, b in pieces({0: b"a", 1: b"b", 5: b"c"})]
    assert run(segments, late, copies, rules).differs_from == 1, "another time"


def test_without_compaction_a_missing_record_is_a_difference_on_either_side():
    segments, new, places = copied({0: b"a", 1: b"b", 5: b"c"})
    copies = copies_of(new, places, {0: b"a", 1: b"b", 5: b"c"})
    assert run(segments, pieces({0: b"a", 5: b"c"}), copies).differs_from == 1
    assert run(segments, pieces({0: b"a", 5: b"c"}), copies, MayLack(old_compacted=True)).differs_from is None
    assert run(segments, pieces({0: b"a", 1: b"b", 5: b"c"}), [copies[0], copies[2]]).differs_from == 1
    only_there = MayLack(new_compacted=True)
    assert run(segments, pieces({0: b"a", 1: b"b", 5: b"c"}), copies[::2], only_there).differs_from is None


@given(logs.filter(len), st.sets(st.integers(0, 60), min_size=1), st.integers(1, 5))
def test_records_of_others_on_the_new_primary_are_counted(old: Log, gaps: set[int], step: int):
    segments, new, places = copied(old, gaps)
    holes = [at for at in range(max(new) + 3) if at not in new]
    copies = sorted([*copies_of(new, places, old), *((at, 7, b"stray") for at in holes)])
    found = run(segments, pieces(old), copies, step=step)
    assert (found.strays, found.first_stray) == (len(holes), min(holes))
    assert (found.equal, found.differs_from) == (len(old), None)


@given(logs, st.sets(st.integers(0, 60)), st.integers(0, 70), st.integers(1, 30))
def test_a_window_has_the_last_records_before_an_offset(old: Log, gaps: set[int], end: int, number: int):
    segments, _, places = copied(old, gaps)
    before = [(o, at) for o, at in sorted(places.items()) if at < end]
    wanted = Begin(*before[-number:][0]) if before else None
    assert window_before(segments, end, number) == wanted


def test_a_part_whose_offsets_are_unknown_is_in_no_window():
    segments = SegmentMap.of([(0, 0, -2), (10, 5, 3)])
    assert window_before(segments, 8, 100) == Begin(10, 5)
    assert window_before(segments, 5, 100) is None
    assert segments.copy_of(3) is None
    assert segments.origin_of(3) is None
