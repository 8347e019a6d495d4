"""A drkit that takes the old primary for begun because an earlier process had begun to empty it."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import SAME_SIDES
from drkit.failover.interpreter import Interpreter
from drkit.journal.machine import StepName

BROKEN: Final = "a resumed return does not repeat BEGIN, which the death of the new primary has interrupted"
SCENARIO: Final = "return-new-primary-dies"
CAUGHT_BY: Final = SAME_SIDES


def apply() -> None:
    """Break this process."""
    kept = Interpreter._kept

    def with_begin(self: Interpreter) -> set[StepName]:
        return kept(self) | ({StepName.BEGIN} & self.journal.run.begun)

    patch.object(Interpreter, "_kept", with_begin).start()
