"""Each check: histories that break its promise, and histories that only look as if they did."""

from __future__ import annotations

import pytest

from drkit.exercise.checks import CHECKS, POSITIONS
from drkit.exercise.events import PRIMARY, OffsetCommitted
from drkit.exercise.history import ScenarioHistory
from tests.support.chaos import record_cases, return_cases, run_cases
from tests.support.chaos.minimal import ON_PRIMARY, TP, cases_of, entry, failover, returned

BROKEN = {**record_cases.BROKEN, **run_cases.BROKEN, **return_cases.BROKEN}
HOLDS = {**record_cases.HOLDS, **run_cases.HOLDS, **return_cases.HOLDS}
NOTHING_EXAMINED = {
    **record_cases.NOTHING_EXAMINED,
    **run_cases.NOTHING_EXAMINED,
    **return_cases.NOTHING_EXAMINED,
}


@pytest.mark.parametrize(("check", "case"), cases_of(BROKEN))
def test_what_breaks_a_promise(check: str, case: str):
    checked = CHECKS[check](ScenarioHistory(BROKEN[check][case]))
    assert checked.offences
    assert len(checked.offences) <= checked.examined


@pytest.mark.parametrize(("check", "case"), cases_of(HOLDS))
def test_what_only_looks_like_it(check: str, case: str):
    checked = CHECKS[check](ScenarioHistory(HOLDS[check][case]))
    assert (checked.name, checked.offences) == (check, [])
    assert checked.examined > 0


@pytest.mark.parametrize(("check", "case"), cases_of(NOTHING_EXAMINED))
def test_where_nothing_is_examined(check: str, case: str):
    assert CHECKS[check](ScenarioHistory(NOTHING_EXAMINED[check][case])) == (check, 0, [])


@pytest.mark.parametrize("cases", [BROKEN, HOLDS])
def test_every_check_has_both(cases: dict[str, object]):
    assert cases.keys() == CHECKS.keys() - {POSITIONS}, "those of groups are in test_group_checks.py"


def test_examined_are_the_entries_of_all_runs():
    runs = [failover(), failover(run="2"), returned()]
    assert CHECKS["journal follows the table"](ScenarioHistory(runs)).examined == sum(
        len(run.entries) for run in runs
    )


def test_commits_and_runs_without_reports_break_nothing():
    events = [OffsetCommitted(PRIMARY, *TP, "shop", 3), entry("LOCK", "intent"), ON_PRIMARY]
    assert not [o for check in CHECKS.values() for o in check(ScenarioHistory(events)).offences]
