"""Display of chaos scenarios: progress on stderr; at the end what failed, was promised, and held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
import json
from typing import Any, Final

from drkit.chaos.run import ScenarioRun
from drkit.chaos.scenario import FOLDER, Scenario
from drkit.cli.layout import indented, labelled
from drkit.cli.talk import say
from drkit.clock import monotonic
from drkit.counted import counted
from drkit.exercise.events import HISTORY
from drkit.journal.machine import TABLES

_WIDTH: Final = 80
_STEP: Final = 26
_OFFENCES: Final = 6


class ScenarioProgress:
    """Prints what happens in a scenario; the steps of a run on one line."""

    def __init__(self, scenario: Scenario, number: str) -> None:
        self._began = monotonic()
        self._steps: list[str] = []
        say(f"{scenario.name}{f' ({number})' if number else ''}: {scenario.title}")

    def __call__(self, kind: str, text: str) -> None:
        """Show one event."""
        if kind == "entry":
            step, _, entry = text.partition(" ")
            if entry == "result":
                self._steps.append(step)
            return
        if self._steps:
            say(f"{'':9}{' '.join(step for step, _ in groupby(self._steps))}")
            self._steps.clear()
        seconds = f"{monotonic() - self._began:6.1f} s"
        say(f"{seconds} $ {text}" if kind == "command" else f"{seconds} {kind:9} {text}")


def result_lines(run: ScenarioRun) -> list[str]:
    """Return the end of a scenario for a person."""
    verdict, scenario = run.verdict, run.scenario
    lines = [f"{verdict.word.upper()}  {scenario.name}  {run.seconds:.0f} s, seed {run.seed}"]
    held = [
        f"{c.name:<38}{c.examined:>7,} examined" for c in verdict.checked if c.examined and not c.offences
    ]
    steps = Counter(fault for fault, _, _ in run.covered)
    broken = [offence for c in verdict.checked for offence in c.offences]
    rows = {
        "faults": [f"{fault}: in force in {counted(n, 'step')}" for fault, n in steps.items()] or ["nothing"],
        "promised": [scenario.promised],
        "held": held,
        "broken": broken[:_OFFENCES] + ([f"… {len(broken)} in all"] if len(broken) > _OFFENCES else []),
        "unproven": list(verdict.reasons)[:_OFFENCES] if verdict.word == "inconclusive" else [],
        "typed": [f"{c.typed}  ({c.outcome})" for c in run.commands],
        "page": [f"drkit explain {scenario.runbook}"] if scenario.runbook else [],
        "history": [str(run.folder / HISTORY)],
    }
    return lines + indented(rows)


def coverage_rows() -> list[dict[str, Any]]:
    """Return every step of both tables, with the scenarios observed to have a fault in force there."""
    results = json.loads((FOLDER.parent / "docs" / "chaos.json").read_text(encoding="utf-8"))["scenarios"]
    passed = [(name, each) for name, r in results.items() if r["verdict"] == "pass" for each in r["covered"]]
    observed = {(*at, name) for name, (_, *at) in passed}
    steps = [(table.name, step.value) for table in TABLES.values() for step in table.order]
    return [
        {"table": table, "step": step, "scenarios": sorted(n for *at, n in observed if at == [table, step])}
        for table, step in steps
    ]


def coverage_lines() -> list[str]:
    """Return the same for a person, at most 80 columns wide."""
    lines: list[str] = []
    for row in coverage_rows():
        names = ", ".join(row["scenarios"]) or "none"
        lines += labelled({f"{row['table']} {row['step']}": [names]}, _STEP, _WIDTH)
    return lines


def summary_line(runs: Sequence[ScenarioRun]) -> str:
    """Return how many scenarios passed, and the names of the others."""
    others = [f"{r.scenario.name} {r.verdict.word}" for r in runs if r.verdict.word != "pass"]
    passed = f"{len(runs) - len(others)} of {counted(len(runs), 'scenario')} passed"
    return "; ".join([passed, *others])
