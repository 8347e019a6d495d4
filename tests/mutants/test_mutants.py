"""Each mutant is caught: its scenario fails by the check that it names, while the faults were in force."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from drkit.chaos.run import RESULT, ScenarioRun, run_scenario
from drkit.chaos.scenario import load_scenario, scenarios
from drkit.exercise.checks import CHECKS
from drkit.exercise.events import HISTORY, CommandEnded, read_events
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import RequiredFault
from tests.mutants.parent import MODULE, MUTANT
from tests.support.chaos.in_force import in_force
from tests.support.chaos.mutant_rows import write_row
from tests.support.laws import ROOT, broken

ITSELF: Final = "drkit itself: "
"""Before the error with which a proof of drkit refuses the mutant."""
WIDE: Final = {"no_second_look", "translates_one_later"}
NO_MUTANTS: Final = {"parent", "test_blind_checks", "test_mutants"}
NAMES: Final = sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - NO_MUTANTS)
CASES: Final = [
    pytest.param(name, marks=pytest.mark.wide if name in WIDE else pytest.mark.soak) for name in NAMES
]


def is_caught(mutant: Any, result: ScenarioRun, history: ScenarioHistory) -> bool:
    """Return whether the named check, or the named error of a command, has caught a mutant."""
    if not mutant.CAUGHT_BY.startswith(ITSELF):
        return any(reason.startswith(f"{mutant.CAUGHT_BY}: ") for reason in result.verdict.reasons)
    error = mutant.CAUGHT_BY.removeprefix(ITSELF)
    return any(e.code and e.error.get("error") == error for e in history.of(CommandEnded))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(900)
def test_a_mutant_is_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mutant: Any = import_module(f"tests.mutants.{name}")
    monkeypatch.setenv(MUTANT, name)
    monkeypatch.chdir(ROOT)
    scenario = load_scenario(mutant.SCENARIO)
    result = run_scenario(scenario, tmp_path, seed=1, parent_module=MODULE)
    (tmp_path / RESULT).rename(tmp_path / "mutant-result.json")
    history = ScenarioHistory(read_events(tmp_path / HISTORY, 0)[0])
    assert (result.verdict.word, result.deviated) == ("fail", True), result.as_dict()
    assert is_caught(mutant, result, history), result.as_dict()
    prevented: frozenset[tuple[str, str]] = getattr(mutant, "PREVENTS", frozenset())
    wanted = [RequiredFault(*each) for each in scenario.exercises if each not in prevented]
    assert [each for each in wanted if not in_force(history, each)] == []
    write_row(name, broken=mutant.BROKEN, scenario=scenario.name, caught_by=mutant.CAUGHT_BY)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_names_what_catches_it(name: str):
    mutant: Any = import_module(f"tests.mutants.{name}")
    assert mutant.CAUGHT_BY in CHECKS or mutant.CAUGHT_BY.startswith(ITSELF)
    assert {*load_scenario(mutant.SCENARIO).exercises} >= getattr(mutant, "PREVENTS", set())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_mutant_breaks_exists(name: str):
    try:
        import_module(f"tests.mutants.{name}").apply()
    finally:
        patch.stopall()


def test_every_scenario_has_a_mutant():
    guarded = {import_module(f"tests.mutants.{name}").SCENARIO for name in NAMES}
    broken("scenarios without a mutant", sorted({scenario.name for scenario in scenarios()} - guarded))
