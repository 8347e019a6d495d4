"""A drkit that writes the endpoint file whatever term it has."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.repoint import file
from drkit.repoint.contract import RepointEffect

BROKEN: Final = "REPOINT overwrites an endpoint of a newer term"
SCENARIO: Final = "two-orchestrators"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    patch.object(file, "judge", lambda *_: RepointEffect.CHANGED).start()
