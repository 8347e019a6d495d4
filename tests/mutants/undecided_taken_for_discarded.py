"""A drkit that discards records without a decision."""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import GIVEN_UP
from drkit.failover.core.request import Disposition
from drkit.failover.returning import deciding

BROKEN: Final = "a return without a decision discards what only the old primary has"
SCENARIO: Final = "return-undecided"
CAUGHT_BY: Final = GIVEN_UP
PREVENTS: Final = frozenset({("kill orchestrator", "DECIDE")})
"""It is done by then."""


def apply() -> None:
    """Break this process."""
    chosen = deciding._chosen

    def discarded(*args: Any) -> dict[str, dict[str, Any]]:
        return {
            topic: {**decision, "disposition": decision["disposition"] or Disposition.DISCARD}
            for topic, decision in chosen(*args).items()
        }

    patch.object(deciding, "_chosen", discarded).start()
    patch.object(deciding, "undecided", lambda *_: None).start()
