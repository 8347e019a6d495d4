"""Wait until observers are ready."""

from __future__ import annotations

from drkit.detect.reasons import Reason
from tests.support.watch.world import Lookout


def ready(*lookouts: Lookout) -> None:
    """Everything well: heartbeats arrive, the flow was looked at, the target is ready."""
    for each in lookouts:
        each.sees(Reason.WELL, 90.0)
        each.settles()
