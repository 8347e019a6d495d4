"""Random runs that keep every promise are never accused; with one defect they always are."""

from __future__ import annotations

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
import pytest

from drkit.exercise.checks import CHECKS
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import judge, negative_controls
from tests.support.chaos.defects import DEFECTS, Defect
from tests.support.chaos.pair_model import RUNS, random_run
from tests.support.examples import times

SEEDS = st.integers(0, 10**9)
NAMES = [defect.__name__ for defect in DEFECTS]


@pytest.mark.parametrize("runs", RUNS)
@given(seed=SEEDS)
def test_a_correct_run_is_never_accused(runs: str, seed: int):
    assert [o for c in judge(random_run(seed, runs), []).checked for o in c.offences] == []


@settings(max_examples=times(0.25))
@example(seed=10_048)  # no record is next to a position that can be compared
@example(seed=10_210)
@given(seed=SEEDS)
def test_every_negative_control_is_found(seed: int):
    controls = negative_controls(random_run(seed))
    assert len(controls) >= 4
    assert [name for name, is_caught in controls.items() if not is_caught] == []


def test_a_return_has_controls_of_its_own():
    runs = [negative_controls(random_run(seed, "fr")) for seed in range(20)]
    assert all(controls["a record of the standby dropped"] for controls in runs)
    assert any(controls.get("a record that was given up shown") for controls in runs)


@pytest.mark.parametrize("defect", DEFECTS, ids=NAMES)
@settings(max_examples=times(0.25))
@given(seed=SEEDS)
def test_a_defect_is_always_found(defect: Defect, seed: int):
    histories = list(defect(random_run(seed)))
    if histories:
        assert judge(ScenarioHistory(Random(seed).choice(histories)), []).word == "fail"


@pytest.mark.parametrize("defect", DEFECTS, ids=NAMES)
def test_every_defect_has_a_place_in_some_run(defect: Defect):
    assert any(any(defect(random_run(seed, runs))) for seed in range(5) for runs in RUNS)


def test_every_check_examines_something_in_some_run():
    histories = [random_run(seed, runs) for seed in range(3) for runs in RUNS]
    for name, check in CHECKS.items():
        assert any(check(history).examined for history in histories), name
