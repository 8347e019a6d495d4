"""Runs one scenario file with Chaos Toolkit's runner, which calls actions and probes without a context.

So the scenario that runs is that of this process. Its verdict is that of the checks.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
import json
import logging
from pathlib import Path
import shlex
import shutil
import signal
import tempfile
from types import FrameType
from typing import Any, ClassVar, Final

from drkit.chaos.faults import Faults
from drkit.chaos.history import PRIMARY, STANDBY, CommandEnded, ScenarioHistory
from drkit.chaos.processes import MODULE
from drkit.chaos.scenario import Scenario
from drkit.chaos.stage import HISTORY as HISTORY
from drkit.chaos.stage import ScenarioStage
from drkit.chaos.verdict import INCONCLUSIVE, ScenarioVerdict, steps_under
from drkit.clock import monotonic
from drkit.errors import Failed

RESULT: Final = "result.json"
Tell = Callable[[str, str], None]
"""Receives progress: its kind, and a text."""


@dataclass(frozen=True)
class ScenarioOptions:
    """Options of a run, in addition to its scenario file."""

    folder: Path | None = None
    """Folder of the history, or None for a temporary one."""
    seed: int = 0
    parent_module: str = MODULE
    tell: Tell = field(default=lambda _kind, _text: None)


@dataclass
class ScenarioRun:
    """A stage that is up, its faults, and the verdict when there is one."""

    stage: ScenarioStage
    faults: Faults
    tell: Tell
    verdict: ScenarioVerdict | None = None


class _Current:
    options = ScenarioOptions()
    run: ScenarioRun | None = None
    is_interrupted = False
    """True once SIGINT or SIGTERM came: a C library may swallow its exception."""
    handlers: ClassVar[dict[signal.Signals, Any]] = {}


def is_under_way() -> bool:
    """Return whether a scenario is under way."""
    return _Current.run is not None


def current_run() -> ScenarioRun:
    """Return the run of this process. Raises Failed if no scenario runs."""
    if _Current.is_interrupted:
        raise KeyboardInterrupt
    if _Current.run is None:
        raise Failed("no_scenario_running", where="chaos")
    return _Current.run


def begin_run(**pair: Any) -> ScenarioRun:
    """Start a pair, and a run on it.

    :param pair: arguments of the probe: `brokers`, `authorizer`, `rpo_seconds`
    :raises DrkitError: the pair does not start
    """
    options = _Current.options
    folder = options.folder or Path(tempfile.mkdtemp(prefix="drkit-chaos-"))
    # Chaos Toolkit has handlers of its own, whose exception is another one.
    for number in (signal.SIGINT, signal.SIGTERM):
        _Current.handlers[number] = signal.signal(number, _interrupt)
    progress = partial(options.tell, "local")
    stage = ScenarioStage(folder, options.seed, options.parent_module, **pair, progress=progress)
    stage.__enter__()
    atexit.register(end_run)
    _Current.run = ScenarioRun(stage, Faults(stage), options.tell)
    return _Current.run


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _Current.is_interrupted = True
    raise KeyboardInterrupt


def end_run() -> ScenarioRun | None:
    """End the pair and everything that works on it; return the run that was under way."""
    atexit.unregister(end_run)
    while _Current.handlers:
        signal.signal(*_Current.handlers.popitem())
    run, _Current.run = _Current.run, None
    if run is not None:
        run.stage.__exit__()
    return run


@dataclass(frozen=True)
class ScenarioResult:
    """The end of a scenario."""

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
    _Current.options, _Current.is_interrupted = options, False
    began, experiment = monotonic(), deepcopy(dict(scenario.experiment))
    try:
        journal: Mapping[str, Any] = import_module("chaoslib.experiment").run_experiment(experiment)
    finally:
        run = end_run()
    if _Current.is_interrupted or journal["status"] in {"interrupted", "aborted"}:
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
    for cluster in (PRIMARY, STANDBY):
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
