"""The loss bound of a silent source, by the records on the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from drkit.detect.risk import Risk, Sighting, of_silent_source
from drkit.failover.core.context import Context, Scope
from drkit.flow_state.records import RoleRecord, SourceSeenRecord
from drkit.journal.machine import StepName
from drkit.pair.promotions import returned_topics
from drkit.status.facts import is_whole_note
from drkit.status.lag.source import HeldBack
from drkit.status.model import PartitionStatus
from drkit.status.protection import not_in_step

STOP: Final = "stop"
"""The effect of FREEZE that stops the copy of these topics."""


def silent_risk(context: Context, records: int | None, held: HeldBack, gone: int) -> Risk:
    """Return the loss bound of a silent source. `gone`: number of copied records that the target lost since.

    :param records: number of records known to be missing
    :param held: records that open transactions held back in addition
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
        looked_ms=context.decision.get("looked_ms"),
        noted_copied_ms=noted_copied(source_seen, context.scope),
        margin_ms=round(1000 * context.settings.watch.clock_margin_seconds),
        ahead_seconds=context.beats.ahead_seconds,
    )
    return of_silent_source(sighting, records, held, gone)


def noted_partitions(context: Context, partitions: Iterable[PartitionStatus]) -> list[PartitionStatus]:
    """Return the partitions without those that a silent source did not have when its ends were noted.

    Their topic was deleted there, or the copy alone has them.
    """
    whole = is_whole_note(context.state.records)
    return [p for p in partitions if p.source_end is not None or not whole]


def unprotected(
    context: Context, partitions: Iterable[PartitionStatus], away: Collection[str]
) -> tuple[str, ...]:
    """Return the topics of the scope whose failback was incomplete at the last look, in words.

    :param away: topics that clients write on the source, and whose failback has not begun
    """
    seen = context.state.get(SourceSeenRecord)
    copied = noted_copied(seen, context.scope)
    behind = None if seen is None or copied is None else (seen.at_ms - copied) / 1000
    rpo = context.settings.failover.rpo_seconds
    lines = [
        f"{topic} was promoted on {context.flow.source}, and {context.flow.target} has nothing of it since"
        for topic in sorted(away)
    ]
    returned = set(returned_topics(context.state.records)) - set(away)
    return (*lines, *not_in_step(partitions, returned, rpo, behind))


def noted_copied(seen: SourceSeenRecord | None, scope: Scope) -> int | None:
    """Return the time before which all of a scope was copied when the source's ends were noted, or None.

    Other topics of the flow may be far behind, as those that have not returned yet: a failover of some topics
    loses nothing of them.
    """
    if seen is None or scope.whole_flow:
        return None if seen is None else seen.copied_ms
    return seen.copied_of(scope.topics.keys())


def copied_until(
    beat: int | None, roles: Iterable[RoleRecord | None], effects: Mapping[str, Mapping[str, Any]]
) -> int | None:
    """Return the time, in milliseconds, up to which these topics are completely copied, or None.

    Once they are frozen, newer heartbeats do not count: the flow may still copy its other topics.

    :param beat: time of the newest heartbeat on the target, or None
    :param effects: of FREEZE
    """
    frozen = [role.at_ms for role in roles if role is not None and role.is_frozen]
    if beat is None or not frozen:
        return beat
    known = effects.get(STOP, {}).get("intent", {}).get("copied_ms")
    return min(beat, *frozen) if known is None else min(beat, known)


def newest_beat(context: Context) -> int | None:
    """Return the send time of the newest heartbeat on the target, in milliseconds, or None."""
    tail = context.beats
    tail.read()
    return tail.newest_ms
