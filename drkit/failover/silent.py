"""What a source that does not answer took with it, by what is known of it on the target."""

from __future__ import annotations

from drkit.detect.risk import Risk, Sighting, of_silent_source
from drkit.failover.context import Context
from drkit.failover.machine import StepName
from drkit.flow_state.records import SourceSeenRecord
from drkit.replicate.lag_source import HeldBack


def silent_risk(context: Context, records: int | None, held: HeldBack) -> Risk:
    """The bound of what a source that does not answer took with it.

    :param records: known to be missing
    :param held: what open transactions held back besides
    """
    source_seen = context.state.get(SourceSeenRecord)
    tail = context.kept.beats_of(context)
    tail.read()
    stopped = context.result(StepName.FENCE).get("details", {}).get("stopped_ms")
    sighting = Sighting(
        context.wall(),
        tail.newest_ms,
        source_seen.at_ms if source_seen is not None else None,
        context.decision.get("source_last_seen_ms"),
        stopped if stopped is not None else context.decision.get("dead_since_ms"),
        context.decision.get("copied_ms"),
        round(1000 * context.settings.watch.clock_margin_seconds),
    )
    return of_silent_source(sighting, records, held)
