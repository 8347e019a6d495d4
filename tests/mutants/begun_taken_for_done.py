"""A drkit that takes a step for done because an earlier orchestrator had begun it."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import JOURNAL
from drkit.failover.interpreter import Interpreter
from drkit.journal.machine import StepName

BROKEN: Final = "a resumed run does not repeat the step during which its orchestrator was killed"
SCENARIO: Final = "orchestrator-killed-everywhere"
CAUGHT_BY: Final = JOURNAL


def apply() -> None:
    """Break this process."""
    kept = Interpreter._kept

    def with_begun(self: Interpreter) -> set[StepName]:
        return kept(self) | self.journal.run.begun

    patch.object(Interpreter, "_kept", with_begun).start()
