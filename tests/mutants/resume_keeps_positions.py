"""A drkit that resumes with the positions that an earlier process has found.

Its report still names the records that groups repeat, so the check of positions has nothing to say. What
shows is that the new position of `billing` is not written.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.failover.interpreter import Interpreter
from drkit.journal.machine import StepName

BROKEN: Final = "a resumed failover does not repeat TRANSLATE"
SCENARIO: Final = "live-member"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    kept = Interpreter._kept

    def with_positions(self: Interpreter) -> set[StepName]:
        return kept(self) | ({StepName.TRANSLATE} & self.journal.run.results.keys())

    patch.object(Interpreter, "_kept", with_positions).start()
