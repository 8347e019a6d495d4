"""Wait until observers are ready."""

from __future__ import annotations

from drkit.detect.reasons import Reason
from drkit.status.pair.model import PairState
from tests.support.waiting import eventually
from tests.support.watch.world import Lookout


def protected(lookout: Lookout) -> None:
    """Wait until the replicator has noted on the target what the source has.

    An observer that never sees the primary alive knows the loss by that note alone. The first note follows
    the first copied heartbeats by a second or two.
    """

    def is_protected() -> bool:
        status = lookout.observer.senses.status
        topics = status.pair.topics if status is not None and status.pair is not None else ()
        return bool(topics) and {t.state for t in topics} == {PairState.PROTECTED}

    eventually(is_protected, 60, "a note of the source's ends")


def ready(*lookouts: Lookout) -> None:
    """Everything well: heartbeats arrive, the flow was looked at, the target is ready."""
    for each in lookouts:
        each.sees(Reason.WELL, 90.0)
        each.settles()
