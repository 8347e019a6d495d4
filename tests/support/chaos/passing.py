"""A scenario that passes with its faults in force, and with Chaos Toolkit of the same opinion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drkit.chaos.current import ScenarioOptions
from drkit.chaos.run import run_scenario
from drkit.chaos.scenario import load_scenario

THERE_AND_BACK: Final = "switchover-there-and-back"
"""The longest scenario of `make test`: in a file of its own, it runs beside the others."""


def assert_passes(name: str, folder: Path) -> None:
    """Run a scenario that drkit ships."""
    scenario = load_scenario(name)
    result = run_scenario(scenario, ScenarioOptions(folder, seed=1))
    assert (result.verdict.word, result.deviated) == ("pass", False), result.as_dict()
    covered = {(fault, step) for fault, _, step in result.covered}
    assert covered >= set(scenario.exercises)
