"""The page of chaos scenarios is current, and every step of both tables was observed under a fault."""

from __future__ import annotations

import pytest

from drkit.chaos.scenario import scenarios
from drkit.exercise.verdict import DETECTION
from drkit.journal.machine import TABLES
from tests.chaos_page import PAGE, ROOT, covered, page, results
from tests.support.laws import broken

MUTANTS = ROOT / "tests" / "mutants"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.chaos_page"


def test_every_scenario_has_passed():
    passed = {name for name, result in results()["scenarios"].items() if result["verdict"] == "pass"}
    names = {scenario.name for scenario in scenarios()}
    broken("scenarios without a run that passed", sorted(names - passed))
    broken("results of scenarios that are gone", sorted(results()["scenarios"].keys() - names))


def test_every_mutant_was_caught():
    names = {path.stem for path in MUTANTS.glob("*.py") if "\nBROKEN: Final" in path.read_text("utf-8")}
    caught = results()["mutants"].keys() - {"blind_check"}
    broken("mutants that were not caught", sorted(names - caught))
    broken("results of mutants that are gone", sorted(caught - names))


STEPS = {name: [step.value for step in table.order] for name, table in TABLES.items()}
STEPS |= {DETECTION: ["UP", "SUSPECT", "HOLD", "LOST"]}


@pytest.mark.parametrize("table", STEPS)
def test_every_step_has_a_fault_in_force(table: str):
    steps = {step for _, of, step in covered(results()["scenarios"]) if of == table}
    broken("steps without a fault", [step for step in STEPS[table] if step not in steps])


def test_every_scenario_names_its_page_and_the_page_names_it():
    for scenario in scenarios():
        text = (ROOT / "runbooks" / f"{scenario.runbook}.md").read_text(encoding="utf-8")
        assert f"drkit chaos run {scenario.name}" in text, f"{scenario.runbook} does not name {scenario.name}"
