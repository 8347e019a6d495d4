"""A drkit that reports a late fence as applied, and does not apply it."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.core.step import StepResult
from drkit.failover.old_primary.fence import LateFence

BROKEN: Final = "the pending fence is reported as applied, and nothing is changed"
SCENARIO: Final = "disk-full-primary"
CAUGHT_BY: Final = ONE_SIDE


def apply() -> None:
    """Break this process."""
    patch.object(LateFence, "run", lambda *_: StepResult()).start()
