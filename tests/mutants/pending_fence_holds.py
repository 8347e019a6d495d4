"""A drkit that takes a pending fence for a standing one."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.core.step import StepResult
from drkit.failover.steps.fence import FenceStep

BROKEN: Final = "FENCE is proven without a look at the old primary, which may be back"
SCENARIO: Final = "primary-back-before-open"
CAUGHT_BY: Final = ONE_SIDE


def apply() -> None:
    """Break this process."""
    patch.object(FenceStep, "prove", lambda *_: StepResult()).start()
