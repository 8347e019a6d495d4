"""A drkit that continues a switchover after its primary has died with records that were not copied.

Two functions are broken: a switchover also records on the old primary that the standby opens.
"""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import ACKNOWLEDGED
from drkit.failover.steps import drain, opening

BROKEN: Final = "DRAIN does not refuse an incomplete copy, and OPEN does not need the old primary"
SCENARIO: Final = "switchover-primary-dies"
CAUGHT_BY: Final = ACKNOWLEDGED


def apply() -> None:
    """Break this process."""
    patch.object(drain, "_refuse", lambda *_, **__: None).start()
    patch.object(opening, "mark_opening", lambda *_, **__: None).start()
