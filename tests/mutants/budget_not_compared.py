"""A drkit that does not compare the loss with its budget.

Two functions are broken: without the second one DRAIN still refuses.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.detect.reasons import Reason, ReasonRow
from drkit.exercise.checks import COMMANDS
from drkit.failover.checks import preconditions
from drkit.failover.core.request import RunRequest
from drkit.failover.steps import drain

BROKEN: Final = "neither SNAPSHOT nor DRAIN compares the loss with rpo_seconds"
SCENARIO: Final = "lag-above-budget"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    overruled = preconditions.overruled

    def without_budget(row: ReasonRow, request: RunRequest) -> bool:
        return row.reason is Reason.LAG_ABOVE_RPO or overruled(row, request)

    patch.object(preconditions, "overruled", without_budget).start()
    patch.object(drain, "_refuse", lambda *_, **__: None).start()
