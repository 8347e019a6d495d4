"""A drkit that takes over a run whose orchestrator lives."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.journal import journal

BROKEN: Final = "a resumed run takes the process that works at it for dead"
SCENARIO: Final = "two-orchestrators"
CAUGHT_BY: Final = COMMANDS
PREVENTS: Final = frozenset({("overtake endpoint", "REPOINT")})


def apply() -> None:
    """Break this process."""
    patch.object(journal, "lives_here", lambda _: False).start()
