"""A drkit that gives up a primary that it does not reach, whatever shows that the primary lives."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.detect.reasons import Reason, ReasonRow
from drkit.exercise.checks import ONE_SIDE
from drkit.failover.checks import preconditions
from drkit.failover.core.request import RunRequest

BROKEN: Final = "a failover ignores arriving records and the votes of observers"
SCENARIO: Final = "cut-off-operator"
CAUGHT_BY: Final = ONE_SIDE
_IGNORED: Final = {Reason.REPLICATION_MOVES, Reason.OBSERVERS_DISAGREE, Reason.NO_QUORUM}


def apply() -> None:
    """Break this process."""
    overruled = preconditions.overruled

    def without_signs(row: ReasonRow, request: RunRequest) -> bool:
        return row.reason in _IGNORED or overruled(row, request)

    patch.object(preconditions, "overruled", without_signs).start()
