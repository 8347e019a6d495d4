"""Every scenario that drkit ships passes with its faults in force, and Chaos Toolkit says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.chaos.run import run_scenario
from drkit.chaos.scenario import load_scenario, scenarios
from tests.chaos_page import circle_of

MARKS = {"test": (), "wide": (pytest.mark.wide,), "soak": (pytest.mark.soak,)}
CASES = [pytest.param(scenario.name, marks=MARKS[circle_of(scenario)]) for scenario in scenarios()]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(600)
def test_a_scenario_passes(name: str, tmp_path: Path):
    scenario = load_scenario(name)
    result = run_scenario(scenario, tmp_path, seed=1)
    assert (result.verdict.word, result.deviated) == ("pass", False), result.as_dict()
    covered = {(fault, step) for fault, _, step in result.covered}
    assert covered >= set(scenario.exercises)
