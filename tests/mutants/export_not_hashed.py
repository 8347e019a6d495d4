"""A drkit that does not hash an export before it empties the old primary."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.export import check

BROKEN: Final = "the files of an export are not hashed before the old primary is emptied"
SCENARIO: Final = "return-altered-export"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    patch.object(check, "hash_files", lambda *_: None).start()
