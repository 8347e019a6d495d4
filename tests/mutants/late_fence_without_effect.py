"""A drkit that does not fence a primary that is back, and says that it has."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.core.step import StepResult
from drkit.failover.old_primary.fence import LateFence

BROKEN: Final = "`drkit fence pay` changes nothing, and says that the pending fence is applied"
SCENARIO: Final = "disk-full-primary"
CAUGHT_BY: Final = ONE_SIDE


def apply() -> None:
    """Break this process."""
    patch.object(LateFence, "run", lambda *_: StepResult()).start()
