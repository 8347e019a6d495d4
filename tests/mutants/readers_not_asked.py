"""A drkit that does not ask for members of groups on the old primary."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import COMMANDS
from drkit.failover.returning import contact, pre_delete_checks

BROKEN: Final = "a return does not ask whether groups still have members on the old primary"
SCENARIO: Final = "return-readers"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""
    for module in (contact, pre_delete_checks):
        patch.object(module, "refuse_readers", lambda *_, **__: []).start()
