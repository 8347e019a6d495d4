"""What an observer knows about the loss at one moment, apart from whether the primary's death is proven."""

from __future__ import annotations

from typing import NamedTuple

from drkit.detect.risk import Risk, Sighting, of_answering_source, of_silent_source, unknown
from drkit.detect.seen import SourceView
from drkit.status.lag.source import NOTHING_HELD, HeldBack, held_total
from drkit.status.model import FlowStatus


def last_seen_ms(seen: SourceView, wall_ms: int, now: float) -> int | None:
    """When this observer last got an answer from the source; None: it answers, or it never did.

    All addresses fail since the begin of a watch that never saw the source alive: that says nothing.

    :param now: the current time of the clock of `seen`
    """
    if seen.since is None or not seen.answered:
        return None
    return wall_ms - round((now - seen.since) * 1000)


class LossKnown(NamedTuple):
    """For a silent source, the parts of the bound; else the bound itself."""

    counted: Risk | None
    """The source answers; None: it is silent."""
    sighting: Sighting
    records: int | None = None
    held: HeldBack = NOTHING_HELD

    def risk(self, dead_for: float | None) -> Risk:
        """The loss of a failover now.

        :param dead_for: seconds for which the primary provably takes no record; None: not proven
        """
        if self.counted is not None:
            return self.counted
        seen = self.sighting
        dead_since = None if dead_for is None else seen.now_ms - round(dead_for * 1000)
        return of_silent_source(seen._replace(dead_since_ms=dead_since), self.records, self.held)


def loss_known(status: FlowStatus | None, sighting: Sighting, *, silent: bool) -> LossKnown:
    """What is known about the loss.

    :param status: the newest look at the flow; None: no look yet
    :param sighting: without the replicator's note, which is in the status
    :param silent: our probes do not reach the source
    """
    if status is None:
        return LossKnown(unknown("there was no look at the flow yet"), sighting)
    loss = status.loss
    held = held_total(p.held_back for p in status.partitions)
    if status.source_answers and status.target_answers and not silent:
        found = of_answering_source(loss.records, loss.seconds, exact=loss.exact, reason="", held=held)
        return LossKnown(found, sighting)
    ends = None
    if loss.source_seen_seconds is not None:
        ends = status.at_ms - round(loss.source_seen_seconds * 1000)
    records = None if loss.records is None else loss.records - loss.held_back
    noted = sighting._replace(ends_seen_ms=ends, noted_copied_ms=status.copied_ms)
    return LossKnown(None, noted, records, held)
