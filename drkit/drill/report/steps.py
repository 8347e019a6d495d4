"""Run the steps of a drill, and tell its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drkit.clock import monotonic
from drkit.drill.report.model import StepReport
from drkit.errors import DrkitError, Failed, error_text

Step = Callable[[], str]
"""Does its work, and returns the outcome in words; its name is that of the step."""


class DrillProgress(NamedTuple):
    """Receives the progress of a drill."""

    begun: Callable[[str], None] = lambda _: None
    """Called with the name of each step at its begin."""
    ended: Callable[[StepReport], None] = lambda _: None


SILENT: Final = DrillProgress()


class DrillSteps:
    """The steps of a drill."""

    def __init__(self, progress: DrillProgress) -> None:
        self._progress = progress
        self.ended: list[StepReport] = []
        """The steps that ended, also by an error."""

    def run(self, step: Step) -> None:
        """Run a step.

        :raises DrkitError: that of the step
        :raises Failed: the operating system refused something, as a full disk does
        """
        name, began, outcome = step.__name__.upper(), monotonic(), "interrupted"
        self._progress.begun(name)
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
            self.ended.append(StepReport(name=name, seconds=round(monotonic() - began, 3), outcome=outcome))
            self._progress.ended(self.ended[-1])
