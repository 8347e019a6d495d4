"""A drkit that switches over without a fence, and does not wait for the copy.

Both steps are broken: with FENCE alone broken, DRAIN waits for the end of a log that grows, and refuses.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.core.context import Context
from drkit.failover.core.step import StepResult
from drkit.failover.loss.count import evidence_of
from drkit.failover.steps.drain import DrainStep
from drkit.journal.machine import RETURN
from tests.mutants import fence_without_effect

BROKEN: Final = "FENCE changes nothing, and DRAIN says that everything is copied"
SCENARIO: Final = "switchover-there-and-back"
CAUGHT_BY: Final = ONE_SIDE
PREVENTS: Final = frozenset(("slow operator", step.value) for step in RETURN.order[1:-1])
"""The way home is refused: it never begins."""


def apply() -> None:
    """Break this process."""

    def drained(_: DrainStep, context: Context) -> StepResult:
        return StepResult({**evidence_of(context, [], context.source(), fenced=True), "groups_behind": {}})

    fence_without_effect.apply()
    patch.object(DrainStep, "run", drained).start()
