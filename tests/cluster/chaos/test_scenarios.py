"""Every scenario that drkit ships passes, but for the one of `test_there_and_back.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.chaos.scenario import scenarios
from tests.support.chaos.passing import THERE_AND_BACK, assert_passes

MARKS = {"test": (), "wide": (pytest.mark.wide,), "soak": (pytest.mark.soak,)}
CASES = [
    pytest.param(scenario.name, marks=MARKS[scenario.circle])
    for scenario in scenarios()
    if scenario.name != THERE_AND_BACK
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(600)
def test_a_scenario_passes(name: str, tmp_path: Path):
    assert_passes(name, tmp_path)
