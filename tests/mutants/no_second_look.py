"""A drkit that does not ask the old primary again before it opens the standby."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ONE_SIDE
from drkit.failover.interpreter import Interpreter

BROKEN: Final = "the old primary is not asked again before FREEZE, COMMIT_OFFSETS and OPEN"
SCENARIO: Final = "primary-frozen-and-back"
CAUGHT_BY: Final = ONE_SIDE


def apply() -> None:
    """Break this process."""
    patch.object(Interpreter, "_is_unfenced", lambda _: False).start()
