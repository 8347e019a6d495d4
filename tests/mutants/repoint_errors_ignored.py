"""A drkit that takes a failed repoint for done."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.failover.steps import after_open

BROKEN: Final = "REPOINT ignores that a way to the clients has failed"
SCENARIO: Final = "repoint-fails"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    patch.object(after_open, "_judge", lambda _: None).start()
