"""A drkit that takes partitions for empty because it had begun to empty them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from unittest.mock import patch

from drkit.failover.core.context import Context
from drkit.failover.old_primary.emptied import empty_topic, is_emptied
from drkit.failover.returning import begin

BROKEN: Final = "a resumed return does not repeat an emptying that was interrupted"
SCENARIO: Final = "return-killed-emptying"
CAUGHT_BY: Final = "drkit itself: a copy is not empty up to where its seed begins"


def apply() -> None:
    """Break this process."""

    def empty_once(context: Context, topic: str, up_to: Mapping[int, int]) -> None:
        if not is_emptied(context, topic):
            empty_topic(context, topic, up_to)

    patch.object(begin, "empty_topic", empty_once).start()
