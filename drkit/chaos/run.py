"""Runs one scenario file with Chaos Toolkit's runner, which calls actions and probes without a context.

So the scenario that runs is that of this process. Its verdict is that of the checks.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
import json
import logging
from pathlib import Path
import shutil
import signal
import tempfile
from types import FrameType
from typing import Any, Final

from drkit.chaos.scenario import Scenario
from drkit.chaos.stage import ScenarioStage
from drkit.clock import monotonic
from drkit.errors import Failed
from drkit.exercise.history import PRIMARY, STANDBY, CommandEnded, ScenarioHistory
from drkit.exercise.stage import HISTORY
from drkit.exercise.verdict import INCONCLUSIVE, ScenarioVerdict, coverage

RESULT: Final = "result.json"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Current:
    """The scenario of this process; without :func:`run_scenario`, Chaos Toolkit's own command runs it."""

    folder: Path | None = None
    options: Mapping[str, Any] = {}
    stage: ScenarioStage | None = None
    is_interrupted = False
    """True once SIGINT or SIGTERM came: a C library may swallow its exception."""
    cleanup: Final = ExitStack()


atexit.register(_Current.cleanup.close)


def running_stage() -> ScenarioStage | None:
    """Return the stage of this process, or None if no scenario runs."""
    if _Current.is_interrupted:
        raise KeyboardInterrupt
    return _Current.stage


def current_stage() -> ScenarioStage:
    """Return the stage of this process. Raises Failed if no scenario runs."""
    if (stage := running_stage()) is None:
        raise Failed("no_scenario_running", where="chaos")
    return stage


def begin_stage(**pair: Any) -> ScenarioStage:
    """Start a pair for the scenario of this process. Raises DrkitError if it does not start.

    :param pair: arguments of the probe: `brokers`, `authorizer`, `rpo_seconds`
    """
    folder = _Current.folder or Path(tempfile.mkdtemp(prefix="drkit-chaos-"))
    # Chaos Toolkit has handlers of its own, whose exception is another one.
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    _Current.stage = _Current.cleanup.enter_context(ScenarioStage(folder, **_Current.options, **pair))
    return _Current.stage


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _Current.is_interrupted = True
    raise KeyboardInterrupt


@dataclass(frozen=True)
class ScenarioResult:
    """The end of a scenario."""

    scenario: str
    seed: int
    verdict: ScenarioVerdict
    seconds: float
    folder: Path
    commands: tuple[CommandEnded, ...]
    """The commands of drkit that were typed."""
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
            "commands": [{"command": c.typed, "exit_code": c.code} for c in self.commands],
            "covered": self.covered,
            "history": str(self.folder / HISTORY),
            "toolkit_deviated": self.deviated,
        }


def run_scenario(scenario: Scenario, folder: Path, seed: int = 0, **options: Any) -> ScenarioResult:
    """Run a scenario from its pair's start to its end.

    :param folder: of the history
    :param options: others of :class:`ScenarioStage`: `parent_module`, `tell`
    :raises KeyboardInterrupt: it was interrupted; nothing is left running
    """
    logging.getLogger("chaostoolkit").disabled = True
    _Current.folder, _Current.options, _Current.is_interrupted = folder, {"seed": seed, **options}, False
    began, experiment = monotonic(), deepcopy(dict(scenario.experiment))
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        journal: Mapping[str, Any] = import_module("chaoslib.experiment").run_experiment(experiment)
    finally:
        _Current.cleanup.close()
        stage, _Current.stage = _Current.stage, None
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if _Current.is_interrupted or journal["status"] in {"interrupted", "aborted"}:
        raise KeyboardInterrupt
    history = ScenarioHistory([]) if stage is None else stage.history()
    exercised = {fault for fault, _ in scenario.exercises}
    result = ScenarioResult(
        scenario=scenario.name,
        seed=seed,
        verdict=(stage and stage.verdict) or ScenarioVerdict(INCONCLUSIVE, _troubles(journal), []),
        seconds=monotonic() - began,
        folder=folder,
        commands=tuple(history.of(CommandEnded)),
        covered=tuple(sorted(each for each in coverage(history) if each[0] in exercised)),
        deviated=bool(journal.get("deviated")) or journal["status"] != "completed",
    )
    for cluster in (PRIMARY, STANDBY):
        shutil.rmtree(folder / cluster, ignore_errors=True)
    if stage is not None:
        (folder / RESULT).write_text(json.dumps(result.as_dict(), indent=2) + "\n", encoding="utf-8")
    return result


def _troubles(journal: Mapping[str, Any]) -> list[str]:
    """Return why there is no verdict: what the activities raised."""
    before = (journal.get("steady_states") or {}).get("before") or {}
    runs = [*before.get("probes", ()), *journal.get("run", ())]
    raised = dict.fromkeys(str(run["exception"][-1]).strip() for run in runs if run.get("exception"))
    return [*raised] or [f"Chaos Toolkit ended with {journal['status']}"]
