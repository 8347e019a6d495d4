"""A drkit whose return appends what was to be discarded."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from drkit.exercise.checks import GIVEN_UP
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition
from drkit.failover.returning import after_begin

BROKEN: Final = "REPLAY appends records that were to be discarded"
SCENARIO: Final = "return-with-tail"
CAUGHT_BY: Final = GIVEN_UP


def apply() -> None:
    """Break this process."""
    topics = after_begin._topics

    def with_discarded(context: Context, disposition: Disposition) -> list[str]:
        is_replay = disposition is Disposition.REPLAY
        return topics(context, Disposition.DISCARD) if is_replay else topics(context, disposition)

    patch.object(after_begin, "_topics", with_discarded).start()
