"""Positions are proven by the records after them, and by nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.drill.position_rows import (
    PositionAnswer,
    PositionForm,
    RecordDigest,
    RecordWindow,
    judge_position,
    without_compacted,
)
from drkit.drill.record_windows import MOST_RECORDS
from tests.support.drill.logs import position, window

CLEAN = {PositionAnswer.SAME, PositionAnswer.AT_END}
LOGS = st.lists(st.sampled_from("ab"), min_size=1, max_size=12)


@given(LOGS, st.data())
def test_an_exact_position_is_never_accused(log, data) -> None:
    copied = data.draw(st.integers(0, len(log)))
    at = data.draw(st.integers(0, copied))
    answer, _ = judge_position(position(log, copied, at, at))
    assert answer in CLEAN | {PositionAnswer.NOT_COPIED}
    assert answer in CLEAN or copied < len(log)


@given(LOGS, st.data())
def test_a_position_one_off_is_never_clean(log, data) -> None:
    copied = data.draw(st.integers(0, len(log)))
    at, by = data.draw(st.integers(0, copied)), data.draw(st.sampled_from((-1, 1)))
    if at + by < 0:
        return
    answer, _ = judge_position(position(log, copied, at, at + by))
    assert answer not in CLEAN
    if copied == len(log):
        assert answer is PositionAnswer.DIFFERS


def test_equal_records_at_the_frontier_prove_nothing_before_all_are_copied() -> None:
    assert judge_position(position("aaa", 2, 1, 0))[0] is PositionAnswer.NOT_COPIED
    assert judge_position(position("aaa", 3, 1, 1))[0] is PositionAnswer.SAME
    assert judge_position(position("aaa", 3, 1, 0))[0] is PositionAnswer.DIFFERS


@given(LOGS, st.data())
def test_a_foreign_record_in_a_window_is_found(log, data) -> None:
    at = data.draw(st.integers(max(0, len(log) - 1), len(log)))
    answer, reason = judge_position(position(log, len(log), at, at, foreign=["x"]))
    assert (answer, f"target @{len(log)}" in reason) == (PositionAnswer.DIFFERS, True)


@pytest.mark.parametrize(
    ("copied", "upstream", "downstream", "answer", "words"),
    [
        (6, 2, 2, PositionAnswer.SAME, ""),
        (6, 6, 6, PositionAnswer.AT_END, ""),
        (6, 2, 3, PositionAnswer.DIFFERS, "source @2 is not target @3"),
        (6, 6, 7, PositionAnswer.DIFFERS, "outside of the target's log, @0 to @6"),
        (6, 5, 6, PositionAnswer.DIFFERS, "the target lacks source @5"),
        (5, 5, 5, PositionAnswer.NOT_COPIED, "source @5 is not copied yet"),
        (5, 5, 4, PositionAnswer.DIFFERS, "source @5 is not target @4"),
        (5, 4, 5, PositionAnswer.DIFFERS, "the target lacks source @4"),
    ],
)
def test_the_frontier_decides_what_may_be_missing(copied, upstream, downstream, answer, words) -> None:
    found, reason = judge_position(position("abcdef", copied, upstream, downstream))
    assert (found, words in reason) == (answer, True), reason


def test_a_run_of_equal_records_is_read_to_the_first_other_one() -> None:
    log = "a" * 50 + "b" + "a" * 2000
    assert judge_position(position(log, len(log), 7, 7))[0] is PositionAnswer.SAME
    assert judge_position(position(log, len(log), 7, 8))[0] is PositionAnswer.DIFFERS
    assert judge_position(position(log, len(log), 60, 60))[0] is PositionAnswer.NOT_DISTINGUISHABLE
    assert len(window(log, 60).records) == MOST_RECORDS
    near = len(log) - 10
    assert judge_position(position(log, len(log), near, near))[0] is PositionAnswer.SAME
    assert judge_position(position(log, len(log), near, near + 1))[0] is PositionAnswer.DIFFERS


def test_offsets_alone_can_be_wrong() -> None:
    row = position("abcdef", 6, 2, 2)
    behind = judge_position(row._replace(committed=5))
    assert behind == (PositionAnswer.BEHIND, "3 offsets would be repeated")
    assert judge_position(row._replace(committed=1))[0] is PositionAnswer.DIFFERS
    assert judge_position(row._replace(committed=1, form=PositionForm.TRANSLATED))[0] is PositionAnswer.SAME
    assert judge_position(row._replace(expected=3))[0] is PositionAnswer.DIFFERS
    assert judge_position(row._replace(source=None, reason="no answer")) == (
        PositionAnswer.UNKNOWN,
        "no answer",
    )
    assert judge_position(row._replace(target_log=None, target=None))[0] is PositionAnswer.UNKNOWN
    known = row._replace(known=PositionAnswer.NO_MARK, reason="another client")
    assert judge_position(known) == (PositionAnswer.NO_MARK, "another client")


def test_compaction_hides_only_what_it_can_have_removed() -> None:
    def windows(ours: str, theirs: str, at: int = 0) -> tuple[RecordWindow, RecordWindow]:
        """Two logs whose records keep their offsets; a dot is a record that is gone."""
        pair = [
            RecordWindow(
                tuple(RecordDigest(i, c) for i, c in enumerate(log) if c != "." and i >= at), at_end=True
            )
            for log in (ours, theirs)
        ]
        return pair[0], pair[1]

    def left(pair, position=(0, 0), compacted=(True, True)) -> tuple[str, str]:
        same = (lambda offset: offset, lambda offset: offset)
        found = without_compacted(pair, position, same, compacted)
        return tuple("".join(r.digest for r in w.records) for w in found)  # type: ignore[return-value]

    assert left(windows("ab.d", "a.cd")) == ("ad", "ad")
    assert left(windows("ab.d", "a.cd"), compacted=(False, True)) == ("ad", "acd")
    assert left(windows("ab.d", "a.cd"), compacted=(True, False)) == ("abd", "ad")
    later = (windows("abcd", "abcd")[0], windows("abcd", "abcd", 1)[1])
    assert left(later, position=(0, 1)) == ("abcd", "bcd"), "a record before the position was not removed"
