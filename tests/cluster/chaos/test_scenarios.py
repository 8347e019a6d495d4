"""Every scenario that drkit ships passes, and Chaos Toolkit agrees with the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.chaos.current import ScenarioOptions
from drkit.chaos.run import run_scenario
from drkit.chaos.scenario import FOLDER, load_scenario

MARKS = {"test": (), "wide": (pytest.mark.wide,), "soak": (pytest.mark.soak,)}
CASES = [
    pytest.param(path.stem, marks=MARKS[load_scenario(str(path)).circle])
    for path in sorted(FOLDER.glob("*.yaml"))
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(600)
def test_a_scenario_passes(name: str, tmp_path: Path):
    scenario = load_scenario(name)
    result = run_scenario(scenario, ScenarioOptions(tmp_path, seed=1))
    assert (result.verdict.word, result.deviated) == ("pass", False), result.as_dict()
    covered = {(fault, step) for fault, _, step in result.covered}
    assert covered >= set(scenario.exercises)
