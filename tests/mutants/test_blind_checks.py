"""A check that sees nothing is noticed: its control is not found, so the verdict is inconclusive."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from drkit.chaos import probes
from drkit.chaos.run import ScenarioRun
from drkit.exercise.checks import ABORTED, CHECKS, GIVEN_UP, OLDER_WRITER, SAME_SIDES, Check, CheckResult
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import INCONCLUSIVE, PASS, _defects, judge, negative_controls
from tests.support.chaos.mutant_rows import write_row
from tests.support.chaos.pair_model import RUNS, random_run

SEEDS = range(3)


def controls_of(name: str, history: ScenarioHistory) -> list[str]:
    """Return the controls of a check that can be put into a history."""
    return [defect for check, defect, events, _ in _defects(history) if check == name and events]


def blind(check: Check) -> Check:
    """Return a check that examines as much and finds nothing."""

    def see_nothing(history: ScenarioHistory) -> CheckResult:
        return check(history)._replace(offences=[])

    return see_nothing


def verdict_of(history: ScenarioHistory, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what the probe `holds` says of a history."""
    run = ScenarioRun(Mock(), Path(), stage=Mock(history=lambda: history))
    monkeypatch.setattr(ScenarioRun, "current", run)
    monkeypatch.setattr(probes, "collect", lambda _: None)
    return probes.holds([])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CHECKS)
def test_a_blind_check_is_noticed(name: str, seed: int, monkeypatch: pytest.MonkeyPatch):
    histories = (random_run(n, runs) for n in count(seed * 1000) for runs in RUNS)
    passing = (each for each in histories if judge(each, []).word == PASS)
    history = next(each for each in passing if controls_of(name, each))
    assert verdict_of(history, monkeypatch) == PASS
    monkeypatch.setitem(CHECKS, name, blind(CHECKS[name]))
    missed = [control for control, is_found in negative_controls(history).items() if not is_found]
    assert missed == controls_of(name, history)
    assert verdict_of(history, monkeypatch) == INCONCLUSIVE
    write_row(
        "blind_check",
        broken="one of the 14 checks sees nothing",
        scenario="none: runs of a model",
        caught_by="negative controls: the verdict is inconclusive",
    )


def test_every_check_has_a_control_in_every_run_with_a_failover():
    for_some = {SAME_SIDES, GIVEN_UP, ABORTED, OLDER_WRITER}
    for seed in SEEDS:
        history = random_run(seed, "f")
        controlled = {check for check, _, events, _ in _defects(history) if events}
        assert controlled >= CHECKS.keys() - for_some
