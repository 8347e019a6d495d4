"""A drkit that continues a return without the export that it could not write.

Two functions are broken: before it empties a topic, drkit looks for its export again.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.errors import Failed
from drkit.exercise.checks import COMMANDS
from drkit.failover.core.context import Context
from drkit.failover.core.step import StepResult
from drkit.failover.returning.exporting import ExportStep
from drkit.failover.returning.pre_delete_checks import PreDeleteChecks

BROKEN: Final = "EXPORT ignores that it could not write, and BEGIN does not look for the export"
SCENARIO: Final = "return-export-interrupted"
CAUGHT_BY: Final = COMMANDS
PREVENTS: Final = frozenset({("kill orchestrator", "EXPORT")})


def apply() -> None:
    """Break this process."""
    run = ExportStep.run

    def run_or_pass(self: ExportStep, context: Context) -> StepResult:
        try:
            return run(self, context)
        except Failed:
            return StepResult({"manifest": "", "sha256": "", "records": 0, "spans": {}})

    patch.object(ExportStep, "run", run_or_pass).start()
    patch.object(PreDeleteChecks, "saved", lambda *_: None).start()
