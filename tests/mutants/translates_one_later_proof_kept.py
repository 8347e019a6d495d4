"""A drkit that translates each position one record too late, and still translates it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from unittest.mock import patch

from drkit.offsets.translation import Exact, PartitionPosition, Translation

BROKEN: Final = "positions are translated one record too late"
SCENARIO: Final = "orchestrator-killed-at-open"
CAUGHT_BY: Final = "drkit itself: a translated position does not lead back to where it came from"
PREVENTS: Final = frozenset({("kill orchestrator", "OPEN")})


def apply() -> None:
    """Break this process."""
    forward = PartitionPosition.forward

    def one_later(self: PartitionPosition, upstream: int) -> Translation:
        found = forward(self, upstream)
        if isinstance(found, Exact) and found.offset < self.end:
            return replace(found, offset=found.offset + 1)
        return found

    patch.object(PartitionPosition, "forward", one_later).start()
