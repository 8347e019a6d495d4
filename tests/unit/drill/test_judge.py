"""The verdict follows from the evidence alone, and names the piece."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.drill import judge as judging
from drkit.drill.evidence import (
    READINESS,
    TRANSLATION,
    DrillEvidence,
    ReadinessFacts,
    SeenRefusal,
    VerdictLimits,
)
from drkit.drill.judge import POSITION_DEFECTS, judge
from drkit.drill.position_rows import PackedPositions, PositionAnswer, PositionForm
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from tests.support.drill.logs import position

LOG = "abcdef"
ROWS = tuple(position(LOG, 6, i, i)._replace(group=f"g{i}") for i in range(7))
PAGE = "runbooks/failover-paused.md"
LIMITS = VerdictLimits(rpo_seconds=30.0)


def translation(*rows: Any, limits: VerdictLimits = LIMITS):
    return judge(TRANSLATION, DrillEvidence(PackedPositions.of(rows)), limits)


@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=9), st.data())
def test_one_defect_is_found_and_a_correct_run_is_not_accused(rows, data) -> None:
    assert translation(*rows)[:2] == (PASS, ())
    name = data.draw(st.sampled_from(sorted(POSITION_DEFECTS)))
    index = data.draw(st.integers(0, len(rows) - 1))
    row = rows[index]
    broken = POSITION_DEFECTS[name](row, row.source, row.target)
    if broken is None:
        return
    broken = broken._replace(group="broken")
    verdict = translation(*rows[:index], broken, *rows[index + 1 :])
    assert verdict.word == FAIL
    assert [r.startswith("group broken, orders-0, stored: differs: ") for r in verdict.reasons] == [True]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"known": PositionAnswer.NO_POSITION}, FAIL),
        ({"known": PositionAnswer.NO_MARK}, FAIL),
        ({"known": PositionAnswer.NOT_COPIED}, INCONCLUSIVE),
        ({"known": PositionAnswer.UNKNOWN}, INCONCLUSIVE),
        ({"source": None}, INCONCLUSIVE),
        ({"committed": 4, "mark_age_seconds": 10.0}, PASS),
        ({"committed": 4, "mark_age_seconds": 61.0}, FAIL),
    ],
)
def test_each_answer_has_its_verdict(change, word) -> None:
    verdict = translation(*ROWS, ROWS[1]._replace(group="other", **change))
    assert verdict.word == word
    assert all(r.startswith("group other, orders-0, stored: ") for r in verdict.reasons)
    assert bool(verdict.reasons) is (word != PASS)


def test_defects_are_put_into_rows_of_both_forms_and_all_partitions(monkeypatch) -> None:
    rows = [
        ROWS[0]._replace(group=f"g{i}", partition=p, form=form)
        for i in range(200) for p in range(12) for form in PositionForm
    ]  # fmt: skip
    seen: list[Any] = []
    monkeypatch.setitem(judging.POSITION_DEFECTS, "a record dropped", lambda row, *_: seen.append(row))
    translation(*rows)
    assert len({(row.partition, row.form) for row in seen}) == 12 * 2


def test_nothing_examined_and_a_blind_judge_are_inconclusive(monkeypatch) -> None:
    assert translation().reasons == ("no group has a position in a copied topic",)
    assert translation().word == INCONCLUSIVE
    at_end = translation(ROWS[6])
    assert (at_end.word, at_end.controls["a position one later"], at_end.controls["a record dropped"]) == (
        PASS, True, None,
    )  # fmt: skip
    monkeypatch.setitem(judging.JUDGES, TRANSLATION, lambda *_: iter(()))
    assert translation(*ROWS).word == INCONCLUSIVE
    assert "a defect put into the evidence is not found: a position one later" in translation(*ROWS).reasons


@pytest.mark.parametrize(
    ("change", "word", "reason"),
    [
        ({}, PASS, ""),
        ({"refusals": (SeenRefusal("failover-paused", PAGE, "x"),)}, FAIL, "(drkit explain failover-paused)"),
        ({"pair_state": "unprotected", "pair_reason": "no copy"}, FAIL, "the pair is unprotected: no copy"),
        ({"pair_state": "unknown"}, INCONCLUSIVE, "the pair is unknown"),
        ({"not_ready": (("billing", "no position"),)}, FAIL, "group billing is not ready: no position"),
        ({"loss_seconds": 31.0}, FAIL, "would lose 31.0 s, rpo_seconds = 30"),
        ({"loss_seconds": None, "loss_basis": "never noted"}, INCONCLUSIVE, "unknown: never noted"),
        ({"unknown": ("no answer of the source",)}, INCONCLUSIVE, "no answer of the source"),
    ],
)  # fmt: skip
def test_readiness_names_what_stands_against_a_failover(change, word, reason) -> None:
    facts = replace(ReadinessFacts("protected", groups=1, loss_seconds=2.0), **change)
    verdict = judge(READINESS, DrillEvidence(readiness=facts), LIMITS)
    assert verdict.word == word
    assert set(verdict.controls.values()) == {True}
    assert reason in "".join(verdict.reasons)


def test_readiness_that_was_not_read_is_inconclusive() -> None:
    assert judge(READINESS, DrillEvidence(), LIMITS).word == INCONCLUSIVE
