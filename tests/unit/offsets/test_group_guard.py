"""The table that decides what is written for a group: each line alone, and the laws of all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import TopicPartition
from drkit.offsets.group_guard import (
    TABLE,
    Case,
    GuardVerdict,
    OffsetMark,
    StoredOffset,
    judge,
    may_delete,
    positions_in,
    to_write,
)
from drkit.offsets.segments import Unavailable
from drkit.offsets.translation import Exact

DAY_MS = 86_400_000
WITH_MARK = StoredOffset(42, OffsetMark("a", 100, 42, 1000).text())
ECHO = StoredOffset(100, OffsetMark("b", 7, 100, 5).text())
FREE = Case("a", StoredOffset(100), Exact(42), "", None, worked=False, start=0, end=50, promoted=False,
            now_ms=2000, refresh_ms=DAY_MS)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, GuardVerdict.WRITE),
        ({"state": "Empty"}, GuardVerdict.WRITE),
        (
            {"state": "Dead", "on_target": StoredOffset(9, OffsetMark("a", 60, 9, 5).text())},
            GuardVerdict.WRITE,
        ),
        ({"on_target": WITH_MARK}, GuardVerdict.UNCHANGED),
        ({"on_target": WITH_MARK, "now_ms": 1000 + DAY_MS}, GuardVerdict.REFRESH),
        ({"on_target": WITH_MARK, "on_source": StoredOffset(103), "position": Exact(45)}, GuardVerdict.WRITE),
        ({"on_target": WITH_MARK, "on_source": StoredOffset(50), "position": Exact(7)}, GuardVerdict.WRITE),
        ({"on_source": ECHO, "on_target": StoredOffset(7)}, GuardVerdict.ECHO),
        ({"on_source": ECHO, "on_target": StoredOffset(9)}, GuardVerdict.ECHO),
        # The target has forgotten the group, or lost what it had committed last.
        ({"on_source": ECHO}, GuardVerdict.WRITE),
        ({"on_source": ECHO, "on_target": StoredOffset(6)}, GuardVerdict.MOVED),
        (
            {"on_source": ECHO, "on_target": StoredOffset(6, OffsetMark("a", 60, 6, 5).text())},
            GuardVerdict.WRITE,
        ),
        (
            {"on_source": StoredOffset(100, OffsetMark("b", 7, 100, 5).text()), "is_void": True},
            GuardVerdict.WRITE,
        ),
        ({"position": Unavailable("not copied")}, GuardVerdict.NO_POSITION),
        ({"promoted": True}, GuardVerdict.PROMOTED),
        ({"state": None}, GuardVerdict.NOT_TOLD),
        ({"state": "Stable"}, GuardVerdict.LIVE),
        ({"state": "Reconciling", "on_target": WITH_MARK}, GuardVerdict.LIVE),
        ({"state": "PreparingRebalance"}, GuardVerdict.LIVE),
        ({"state": "Empty", "on_target": StoredOffset(42)}, GuardVerdict.MOVED),
        ({"state": "Empty", "on_target": StoredOffset(41, WITH_MARK.metadata)}, GuardVerdict.MOVED),
        (
            {"state": "Empty", "on_target": StoredOffset(42, OffsetMark("c", 100, 42, 1).text())},
            GuardVerdict.MOVED,
        ),
        ({"on_target": WITH_MARK, "worked": True}, GuardVerdict.MOVED),
        ({"worked": True}, GuardVerdict.MOVED),
        ({"end": 41}, GuardVerdict.OUT_OF_RANGE),
        ({"start": 43}, GuardVerdict.OUT_OF_RANGE),
    ],
)
def test_each_line_of_the_table(change: dict[str, object], verdict: GuardVerdict) -> None:
    assert judge(FREE._replace(**change)) is verdict  # type: ignore[arg-type]


states = st.sampled_from([None, "", "Empty", "Dead", "Stable", "Assigning", "CompletingRebalance"])
marks = st.builds(OffsetMark, st.sampled_from("abc"), *[st.integers(0, 60)] * 3)
stored = st.one_of(
    st.builds(StoredOffset, st.integers(0, 60)),
    st.builds(lambda m: StoredOffset(m.downstream, m.text()), marks),
    st.builds(lambda m, o: StoredOffset(o, m.text()), marks, st.integers(0, 60)),
)
cases = st.builds(
    Case, st.just("a"), stored, st.one_of(st.builds(Exact, st.integers(0, 60)), st.just(Unavailable("?"))),
    states, st.none() | stored, st.booleans(), st.integers(0, 30), st.integers(0, 60), st.booleans(),
    st.integers(0, 99), st.integers(1, 50),
)  # fmt: skip


@given(cases)
def test_what_is_written_harms_no_consumer(case: Case) -> None:
    verdict = judge(case)
    if not verdict.is_write:
        return
    assert case.state in {"", "Empty", "Dead"}
    assert case.start <= case.offset <= case.end
    assert not case.promoted
    assert not case.worked
    if case.on_target is not None:
        mark = OffsetMark.of(case.on_target.metadata)
        assert mark is not None
        assert (mark.source, mark.downstream) == ("a", case.on_target.offset)
    # Written and read back it is drkit's, and at rest.
    after = case._replace(on_target=to_write(case), state="Empty", refresh_ms=1000)
    assert judge(after) is GuardVerdict.UNCHANGED


@given(cases, stored)
def test_a_consumer_that_commits_without_our_mark_owns_the_offset(case: Case, other: StoredOffset) -> None:
    mine = case._replace(on_target=StoredOffset(other.offset, "anything else"))
    assert not judge(mine).is_write


def test_every_verdict_of_the_table_is_reachable_once() -> None:
    assert len({v for v, _ in TABLE}) == len(TABLE)
    assert set(GuardVerdict) - {v for v, _ in TABLE} == {GuardVerdict.WRITE, GuardVerdict.NOT_STORED}


@given(st.text(max_size=60))
def test_other_metadata_is_no_mark(text: str) -> None:
    assert OffsetMark.of(text) is None


@given(marks)
def test_a_mark_survives_its_text(mark: OffsetMark) -> None:
    assert OffsetMark.of(mark.text()) == mark
    assert OffsetMark.of(mark.text() + " more") is None
    assert OffsetMark.of(mark.text().replace("drkit/1", "drkit/2")) is None


VOID = StoredOffset(42, OffsetMark("a", None, 42, 1000).text())
"""What a failback leaves where a group has no place on the new primary."""


@given(marks)
def test_a_void_mark_survives_its_text_and_old_marks_are_read(mark: OffsetMark) -> None:
    void = mark._replace(upstream=None)
    assert OffsetMark.of(void.text()) == void
    assert StoredOffset(void.downstream, void.text()).void == void
    assert StoredOffset(void.downstream + 1, void.text()).void is None, "the group has committed since"
    old = f"drkit/1 {mark.source} {mark.upstream} {mark.downstream} {mark.written_ms}"
    assert OffsetMark.of(old) == mark
    assert StoredOffset(mark.downstream, old).void is None


def test_a_void_mark_permits_to_overwrite_an_offset_and_is_no_position() -> None:
    assert judge(FREE._replace(on_target=VOID)) is GuardVerdict.WRITE
    assert judge(FREE._replace(on_target=VOID, on_source=StoredOffset(0))) is GuardVerdict.WRITE
    by_other = StoredOffset(100, OffsetMark("b", None, 100, 5).text())
    for own in (None, StoredOffset(7), StoredOffset(42), VOID):
        assert judge(FREE._replace(on_source=by_other, on_target=own)) is GuardVerdict.NO_POSITION
    moved = FREE._replace(on_target=StoredOffset(41, VOID.metadata))
    assert judge(moved) is GuardVerdict.MOVED
    assert may_delete("a", "Empty", [VOID])


def test_void_positions_are_not_among_those_of_a_group() -> None:
    first, second, other = (TopicPartition(t, p) for t, p in (("t", 0), ("t", 1), ("u", 0)))
    offsets = {first: VOID, second: WITH_MARK, other: StoredOffset(3)}
    assert positions_in(offsets, {"t"}) == {second: WITH_MARK}


@pytest.mark.parametrize(
    ("state", "there", "allowed"),
    [
        ("Empty", [WITH_MARK], True),
        ("Empty", [WITH_MARK, StoredOffset(3)], False),
        ("Empty", [WITH_MARK, StoredOffset(3, OffsetMark("b", 3, 3, 3).text())], False),
        ("Stable", [WITH_MARK], False),
        (None, [WITH_MARK], False),
        ("Empty", [], False),
    ],
)
def test_only_a_group_with_drkits_positions_alone_follows_a_deletion(
    state: str | None, there: list[StoredOffset], *, allowed: bool
) -> None:
    assert may_delete("a", state, there) is allowed
