"""Runs one scenario file with Chaos Toolkit's runner, which calls actions and probes without a context.

So the scenario that runs is that of this process. Its verdict is that of the checks.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
import json
import logging
from pathlib import Path
import shutil
import signal
import sys
import tempfile
from types import FrameType
from typing import Any, ClassVar, Final

from drkit.chaos.scenario import SUFFIXES, Scenario, load_scenario
from drkit.chaos.stage import ScenarioStage
from drkit.clock import monotonic
from drkit.errors import DrkitError, Failed
from drkit.exercise.events import HISTORY, PRIMARY, STANDBY, CommandEnded, LookFailed
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import INCONCLUSIVE, ScenarioVerdict, coverage

RESULT: Final = "result.json"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(repr=False)  # signal() makes texts of handlers
class ScenarioRun:
    """A run of a scenario: its pair, with `options` of its stage, and its result once it is finished."""

    current: ClassVar[ScenarioRun | None] = None
    """That of this process: Chaos Toolkit calls actions and probes without a context."""
    scenario: Scenario
    folder: Path
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    stage: ScenarioStage | None = None
    is_interrupted: bool = False
    """True once SIGINT, SIGTERM or SIGHUP came: a C library may swallow its exception."""
    pair: ExitStack = field(default_factory=ExitStack)
    began: float = field(default_factory=monotonic)
    seconds: float = field(init=False)
    """How long it took, once it is finished."""
    verdict: ScenarioVerdict = field(init=False)
    commands: tuple[CommandEnded, ...] = ()
    """The commands of drkit that were typed."""
    covered: tuple[tuple[str, str, str], ...] = ()
    """Fault, table and step: the fault was in force while the step was under way, by the journal."""
    unwritable: OSError | None = None
    """The error of a folder in which nothing can be recorded."""
    deviated: bool | None = None
    """Chaos Toolkit's verdict: the hypothesis was not met after the method. None: only its command knows."""

    def begin(self, **pair: Any) -> ScenarioStage:
        """Start a :class:`ScenarioStage` with the arguments of the probe. Raises DrkitError if it fails."""
        # Chaos Toolkit has handlers of its own, whose exception is another one.
        for number in _SIGNALS:
            signal.signal(number, self._interrupt)
        for cluster in (PRIMARY, STANDBY):  # also where it is interrupted
            self.pair.callback(shutil.rmtree, self.folder / cluster, ignore_errors=True)
        self.stage = ScenarioStage(self.folder, seed=self.seed, **self.options, **pair)
        return self.pair.enter_context(self.stage)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.is_interrupted = True
        raise KeyboardInterrupt

    def finish(self, *, deviated: bool | None = None) -> ScenarioRun:
        """End the pair, and write the result; return the run."""
        self.pair.close()
        self.seconds = monotonic() - self.began
        history = ScenarioHistory([]) if self.stage is None else self.stage.history()
        failed = [f"{look.what}: {look.error}" for look in history.of(LookFailed)]
        nothing = str(self.unwritable or "Chaos Toolkit called no probe of drkit")
        unknown = ScenarioVerdict(INCONCLUSIVE, failed or [nothing], [])
        self.verdict = (self.stage and self.stage.verdict) or unknown
        self.commands = tuple(history.of(CommandEnded))
        exercised = {fault for fault, _ in self.scenario.exercises}
        self.covered = tuple(sorted(each for each in coverage(history) if each[0] in exercised))
        self.deviated = deviated
        if self.stage is not None and self.unwritable is None:
            (self.folder / RESULT).write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "scenario": self.scenario.name,
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


def current_stage() -> ScenarioStage:
    """Return the stage of this process. Raises Failed if no scenario runs."""
    run = ScenarioRun.current
    if run is None or run.stage is None:
        raise Failed("no_scenario_running", where="chaos")
    if run.is_interrupted:
        raise KeyboardInterrupt
    return run.stage


@contextmanager
def recorded(activity: str) -> Iterator[None]:
    """Record the error of an action or a probe, whatever it is."""
    try:
        yield
    except BaseException as error:
        if (run := ScenarioRun.current) is not None:
            text = error.in_short if isinstance(error, DrkitError) else repr(error)
            try:
                if run.stage is None:
                    raise
                run.stage.recorder.record(LookFailed(activity, text))
            except OSError as unwritable:
                run.unwritable = unwritable
        raise


def current_run() -> ScenarioRun:
    """Return the run of this process; that of Chaos Toolkit's own command is shown when the process ends."""
    if ScenarioRun.current is not None:
        return ScenarioRun.current
    files = [word for word in sys.argv[1:] if word.endswith(SUFFIXES)]
    scenario = load_scenario(files[0]) if files else Scenario("experiment", "", {}, ())
    screens, folder = import_module("drkit.cli.screens.chaos"), Path(tempfile.mkdtemp(prefix="drkit-chaos-"))
    tell = screens.ScenarioProgress(scenario, "")
    run = ScenarioRun.current = ScenarioRun(scenario, folder, options={"tell": tell})
    atexit.register(lambda: screens.say("\n".join(screens.result_lines(run.finish()))))
    return run


def run_scenario(scenario: Scenario, folder: Path, seed: int = 0, **options: Any) -> ScenarioRun:
    """Run a scenario from its pair's start to its end; the parameters are those of :class:`ScenarioRun`.

    :raises OSError: nothing can be recorded in the folder
    :raises KeyboardInterrupt: it was interrupted; nothing is left running
    """
    logging.getLogger("chaostoolkit").disabled = True
    ScenarioRun.current = run = ScenarioRun(scenario, folder, seed, options)
    experiment, handlers = deepcopy(dict(scenario.experiment)), {n: signal.getsignal(n) for n in _SIGNALS}
    try:
        journal: Mapping[str, Any] = import_module("chaoslib.experiment").run_experiment(experiment)
    finally:
        run.pair.close()
        ScenarioRun.current = None
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if run.is_interrupted or journal["status"] in {"interrupted", "aborted"}:
        raise KeyboardInterrupt
    if run.unwritable is not None:
        raise run.unwritable
    return run.finish(deviated=bool(journal.get("deviated")) or journal["status"] != "completed")
