"""The scenario that runs in this process: Chaos Toolkit calls actions and probes without a context."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
import signal
import tempfile
from types import FrameType
from typing import Any, ClassVar

from drkit.chaos.faults import Faults
from drkit.chaos.processes import MODULE
from drkit.chaos.stage import ScenarioStage
from drkit.chaos.verdict import ScenarioVerdict
from drkit.errors import Failed

Tell = Callable[[str, str], None]
"""Receives progress: its kind, and a text."""


@dataclass(frozen=True)
class ScenarioOptions:
    """What a run is given besides its scenario file."""

    folder: Path | None = None
    """Where the history stays; None: a temporary folder."""
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
    handlers: ClassVar[dict[signal.Signals, Any]] = {}


def set_options(options: ScenarioOptions) -> None:
    """Set the options of the next run of this process."""
    _Current.options, _Current.is_interrupted = options, False


def was_interrupted() -> bool:
    """Return whether SIGINT or SIGTERM came during the run: a C library may swallow its exception."""
    return _Current.is_interrupted


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _Current.is_interrupted = True
    raise KeyboardInterrupt


def is_under_way() -> bool:
    """Return whether a scenario is under way."""
    return _Current.run is not None


def begin_run(**pair: Any) -> ScenarioRun:
    """Start a pair, and a run on it.

    :param pair: what the probe says of the pair: `brokers`, `authorizer`, `rpo_seconds`
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


def current_run() -> ScenarioRun:
    """Return the run of this process.

    :raises Failed: none is under way
    """
    if _Current.is_interrupted:
        raise KeyboardInterrupt
    if _Current.run is None:
        raise Failed("no_scenario_running", where="chaos")
    return _Current.run


def end_run() -> ScenarioRun | None:
    """End the pair and everything that works on it; return the run that was under way."""
    atexit.unregister(end_run)
    while _Current.handlers:
        signal.signal(*_Current.handlers.popitem())
    run, _Current.run = _Current.run, None
    if run is not None:
        run.stage.__exit__()
    return run
