"""A check that sees nothing is noticed: its control is not found, so the verdict is inconclusive."""

from __future__ import annotations

from typing import Final
from unittest.mock import Mock

import pytest

from drkit.chaos import probes
from drkit.exercise.checks import (
    ABORTED,
    ACKNOWLEDGED,
    CHECKS,
    IN_ORDER,
    ONE_SIDE,
    POSITIONS,
    Check,
    CheckResult,
)
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import INCONCLUSIVE, PASS, negative_controls
from tests.support.chaos.mutant_rows import write_row
from tests.support.chaos.pair_model import random_run

GUARDED: Final = {
    ACKNOWLEDGED: "a copied record dropped",
    IN_ORDER: "a record out of order",
    POSITIONS: "a position one later",
    ABORTED: "an aborted record shown",
    ONE_SIDE: "a record acknowledged after OPEN",
}
"""Check → a defect that it must find."""
SEEDS: Final = range(3)


def blind(check: Check) -> Check:
    """Return a check that examines as much and finds nothing."""

    def see_nothing(history: ScenarioHistory) -> CheckResult:
        return check(history)._replace(offences=[])

    return see_nothing


def verdict_of(history: ScenarioHistory, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what the probe `holds` says of a history."""
    monkeypatch.setattr(probes, "running_stage", lambda: Mock(history=lambda: history))
    monkeypatch.setattr(probes, "collect", lambda _: None)
    return probes.holds([])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GUARDED)
def test_a_blind_check_is_noticed(name: str, seed: int, monkeypatch: pytest.MonkeyPatch):
    history = random_run(seed)
    assert verdict_of(history, monkeypatch) == PASS
    monkeypatch.setitem(CHECKS, name, blind(CHECKS[name]))
    assert not negative_controls(history)[GUARDED[name]]
    assert verdict_of(history, monkeypatch) == INCONCLUSIVE
    write_row(
        "blind_check",
        broken="one of the five checks with controls sees nothing",
        scenario="every scenario",
        caught_by="negative controls: the verdict is inconclusive",
    )
