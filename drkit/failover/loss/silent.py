"""What a source that does not answer took with it, by what is known of it on the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from drkit.detect.risk import Risk, Sighting, of_silent_source
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.flow_state.records import RoleRecord, SourceSeenRecord
from drkit.status.lag.source import HeldBack

STOP: Final = "stop"
"""The effect of FREEZE after which the flow copies these topics no more."""


def silent_risk(context: Context, records: int | None, held: HeldBack) -> Risk:
    """The bound of what a source that does not answer took with it.

    :param records: known to be missing
    :param held: what open transactions held back besides
    """
    source_seen = context.state.get(SourceSeenRecord)
    stopped = context.result(StepName.FENCE).get("details", {}).get("stopped_ms")
    roles = [context.state.get(RoleRecord, topic) for topic in context.scope.topics]
    beat = newest_beat(context)
    sighting = Sighting(
        now_ms=context.wall(),
        heartbeat_ms=copied_until(beat, roles, context.effects(StepName.FREEZE)),
        ends_seen_ms=source_seen.at_ms if source_seen is not None else None,
        last_seen_ms=context.decision.get("source_last_seen_ms"),
        dead_since_ms=stopped if stopped is not None else context.decision.get("dead_since_ms"),
        copied_ms=context.decision.get("copied_ms"),
        margin_ms=round(1000 * context.settings.watch.clock_margin_seconds),
        ahead_seconds=context.kept.beats_of(context).ahead_seconds,
    )
    return of_silent_source(sighting, records, held)


def copied_until(
    beat: int | None, roles: Iterable[RoleRecord | None], effects: Mapping[str, Mapping[str, Any]]
) -> int | None:
    """Up to when the copy of these topics is complete: a heartbeat says nothing once they are frozen.

    The flow may go on with other topics, and so with its heartbeats.

    :param beat: the newest heartbeat on the target, by its time; None: there is none
    :param effects: of FREEZE
    """
    frozen = [role.at_ms for role in roles if role is not None and role.is_frozen]
    if beat is None or not frozen:
        return beat
    known = effects.get(STOP, {}).get("intent", {}).get("copied_ms")
    return min(beat, *frozen) if known is None else min(beat, known)


def newest_beat(context: Context) -> int | None:
    """When the newest heartbeat that reached the target was sent, in milliseconds; None: there is none."""
    tail = context.kept.beats_of(context)
    tail.read()
    return tail.newest_ms
