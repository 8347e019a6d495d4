"""Steps of a drill: what they work with, how they run, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
import threading
from typing import Any, NamedTuple

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.drill.entry import DrillEntry
from drkit.drill.evidence import BubbleEvidence, DrillEvidence, SwitchoverEvidence
from drkit.drill.history import DrillHistory
from drkit.drill.judge import DrillVerdict
from drkit.drill.plan import DrillPlan
from drkit.drill.report import StepReport
from drkit.errors import DrkitError, Failed, Refused, error_text
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector


@dataclass(frozen=True, kw_only=True)
class DrillOptions:
    """The surroundings of a drill."""

    due: datetime | None = None
    """The due time of its schedule, or None if a person started it."""
    begun: Callable[[str], None] = lambda _: None
    """Called with the name of each step at its begin."""
    ended: Callable[[StepReport], None] = lambda _: None
    """Called with each step at its end."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends the drill early when it is set."""
    clock: Seconds = monotonic
    wall: Millis = wall_ms


@dataclass(frozen=True)
class DrillRun:
    """A drill that runs, and production as its settings have it."""

    settings: Settings
    flow: FlowSettings
    plan: DrillPlan
    history: DrillHistory
    entry: DrillEntry
    options: DrillOptions


class CollectedEvidence(NamedTuple):
    """The evidence of a drill, and how much of the flow it covers."""

    evidence: DrillEvidence = DrillEvidence()
    topics: int = 0
    partitions: int = 0
    groups: int = 0
    outcome: str = ""
    steps: tuple[StepReport, ...] = ()
    """Its steps, if it had more than one."""
    ended: DrillVerdict | None = None
    """Its verdict if it did not run to its end, or None: the evidence is judged."""


class SteppedDrill:
    """A drill of several steps: methods that return their outcome in words, and are named as the steps."""

    _evidence: BubbleEvidence | SwitchoverEvidence

    def __init__(self, run: DrillRun) -> None:
        self._settings, self._flow, self._plan = run.settings, run.flow, run.plan
        self._options, self._stop = run.options, run.options.stop
        self._steps: list[StepReport] = []
        """The steps that ended, also by an error."""

    def _note(self, **evidence: Any) -> None:
        self._evidence = replace(self._evidence, **evidence)

    def _run(self, step: Callable[[], str]) -> None:
        """Run a step. Raises DrkitError: that of the step, or the system's, such as a full disk."""
        name, began, outcome = step.__name__.upper(), monotonic(), "interrupted"
        self._options.begun(name)
        try:
            outcome = step()
        except DrkitError as error:
            outcome = error.in_short
            raise
        except OSError as error:
            outcome = error_text(error)
            where = str(error.filename or name)
            raise Failed("drill_step_refused", where=where, evidence=outcome) from error
        finally:
            self._steps.append(StepReport(name=name, seconds=round(monotonic() - began, 3), outcome=outcome))
            self._options.ended(self._steps[-1])


def refuse_unprotected(settings: Settings, flow: FlowSettings) -> None:
    """Refuse a drill while the copy of production is not complete. Raises Refused."""
    with closing(PairedCollector(settings, flow, groups=False)) as collector:
        pair = collector.read_pair()
    if pair.state is not PairState.PROTECTED:
        evidence = f"{pair.state}: {pair.reason}"
        raise Refused("not_protected", where=flow.name, evidence=evidence, flow=flow.name)
