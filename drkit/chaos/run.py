"""Runs one scenario file with Chaos Toolkit's runner; the verdict is that of the checks."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
import json
import logging
from pathlib import Path
import shlex
import shutil
from typing import Any, Final

from drkit.chaos.current import ScenarioOptions, end_run, set_options, was_interrupted
from drkit.chaos.history import CommandEnded, ScenarioHistory
from drkit.chaos.scenario import Scenario
from drkit.chaos.verdict import INCONCLUSIVE, ScenarioVerdict, steps_under
from drkit.clock import monotonic

RESULT: Final = "result.json"
HISTORY: Final = "history.jsonl"


@dataclass(frozen=True)
class ScenarioResult:
    """How a scenario ended."""

    scenario: str
    seed: int
    verdict: ScenarioVerdict
    seconds: float
    folder: Path
    commands: tuple[tuple[str, int | None], ...]
    """Each command of drkit that was typed, and its exit code."""
    covered: tuple[tuple[str, str, str], ...]
    """Fault, table and step: the fault was in force while the step was under way, by the journal."""
    deviated: bool
    """Chaos Toolkit's own verdict: the hypothesis was not met after the method."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "verdict": self.verdict.word,
            "reasons": list(self.verdict.reasons),
            "seconds": round(self.seconds, 1),
            "checks": [
                {"check": c.name, "examined": c.examined, "offences": list(c.offences)}
                for c in self.verdict.checked
            ],
            "commands": [{"command": words, "exit_code": code} for words, code in self.commands],
            "covered": self.covered,
            "history": str(self.folder / HISTORY),
            "toolkit_deviated": self.deviated,
        }


def run_scenario(scenario: Scenario, options: ScenarioOptions) -> ScenarioResult:
    """Run a scenario from its pair's start to its end.

    :raises KeyboardInterrupt: it was interrupted; nothing is left running
    """
    logging.getLogger("chaostoolkit").disabled = True
    set_options(options)
    began = monotonic()
    try:
        journal: Mapping[str, Any] = import_module("chaoslib.experiment").run_experiment(
            deepcopy(dict(scenario.experiment))
        )
    finally:
        run = end_run()
    if was_interrupted() or journal["status"] in {"interrupted", "aborted"}:
        raise KeyboardInterrupt
    folder, history, verdict = options.folder or Path(), ScenarioHistory([]), None
    if run is not None:
        folder, history, verdict = run.stage.folder, run.stage.history(), run.verdict
    faults = dict.fromkeys(fault for fault, _ in scenario.exercises)
    result = ScenarioResult(
        scenario=scenario.name,
        seed=options.seed,
        verdict=verdict or ScenarioVerdict(INCONCLUSIVE, _troubles(journal), []),
        seconds=monotonic() - began,
        folder=folder,
        commands=tuple((shlex.join(("drkit", *c.words)), c.code) for c in history.of(CommandEnded)),
        covered=tuple((fault, *step) for fault in faults for step in steps_under(history, fault)),
        deviated=bool(journal.get("deviated")) or journal["status"] != "completed",
    )
    for cluster in ("primary", "standby"):
        shutil.rmtree(folder / cluster, ignore_errors=True)
    if run is not None:
        (folder / RESULT).write_text(json.dumps(result.as_dict(), indent=2) + "\n", encoding="utf-8")
    return result


def _troubles(journal: Mapping[str, Any]) -> list[str]:
    """Return why there is no verdict: what the activities raised."""
    before = (journal.get("steady_states") or {}).get("before") or {}
    runs = [*before.get("probes", ()), *journal.get("run", ())]
    raised = [str(run["exception"][-1]).strip() for run in runs if run.get("exception")]
    return raised or [f"Chaos Toolkit ended with {journal['status']}"]
