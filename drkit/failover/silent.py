"""What a source that does not answer took with it, by what is known of it on the target."""

from __future__ import annotations

from drkit.failover.context import Context
from drkit.failover.machine import StepName
from drkit.failover.risk import Risk, Sighting, of_silent_source
from drkit.flow_state.records import SourceSeenRecord
from drkit.replicate.heartbeat_tail import HeartbeatTail
from drkit.replicate.lag_source import HeldBack


def silent_risk(context: Context, records: int | None, held: HeldBack) -> Risk:
    """The bound of what a source that does not answer took with it.

    :param records: known to be missing
    :param held: what open transactions held back besides
    """
    now, source_seen = context.wall(), context.state.get(SourceSeenRecord)
    seen = source_seen.at_ms if source_seen is not None else None
    last_seen = context.decision.get("source_last_seen_ms")
    stopped = context.result(StepName.FENCE).get("details", {}).get("stopped_ms")
    dead_since = stopped if stopped is not None else context.decision.get("dead_since_ms")
    beat, ahead = _newest_beat(context, now)
    sighting = Sighting(now, beat, seen, last_seen, dead_since, ahead)
    return of_silent_source(sighting, records, held)


def _newest_beat(context: Context, now: int) -> tuple[int | None, float]:
    """The newest heartbeat that counts, and how far the last one is ahead of our clock, if too far."""
    tail = HeartbeatTail(context.target_settings, context.flow, lambda: now)
    try:
        beat = tail.read()
    finally:
        tail.close()
    return None if beat is None else now - int(beat.age_seconds * 1000), tail.ahead_seconds
