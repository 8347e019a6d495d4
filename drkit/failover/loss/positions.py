"""The position of every partition in a run's scope: the offset map checked against the target's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from drkit.counted import first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context, asked
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition
from drkit.offset_map.places import RECREATED
from drkit.offsets import Unavailable
from drkit.offsets.translation import PartitionPosition
from drkit.status.facts import noted_ends

ScopePositions = dict[TopicPartition, PartitionPosition | Unavailable]
"""By source partition."""
NO_PARTITION: Final = Unavailable("the target has no such partition")


def pairs_of(context: Context) -> list[CopiedPartition]:
    """Return the partitions of the scope that the target has, with their sources. Raises RawError."""
    known, scope = context.known, context.scope.topics
    topics = context.run(metadata, context.target, sorted(scope.values()))
    return [
        known.pair(name, number)
        for name, target in sorted(scope.items())
        if name in known.topics
        for number in sorted(topics[target].leaders)
    ]


def scope_positions(context: Context, source: RawCluster | None, *, final: bool = False) -> ScopePositions:
    """Return the current position of every partition in the scope.

    :param final: no more records will be copied
    :raises RawError: the target does not answer
    :raises Failed: the offset map cannot be read
    """
    found = positions_of(context, pairs_of(context), source)
    if not final:
        return found
    return {tp: replace(p, frozen=True) if isinstance(p, PartitionPosition) else p for tp, p in found.items()}


def bounds_of(context: Context, positions: ScopePositions) -> dict[str, dict[str, int]]:
    """Return start, end and frontier of each copy with a known position, for :func:`refuse_changed`."""
    names = context.scope.topics
    known = {
        str(TopicPartition(names[tp.topic], tp.partition)): p
        for tp, p in sorted(positions.items())
        if isinstance(p, PartitionPosition)
    }
    frontiers = {c: p.frontier for c, p in known.items() if p.frontier is not None}
    starts, ends = {c: p.start for c, p in known.items()}, {c: p.end for c, p in known.items()}
    return {"starts": starts, "ends": ends, "frontiers": frontiers}


def refuse_changed(
    context: Context, positions: ScopePositions, bounds: Mapping[str, Any], stated: Mapping[str, Any]
) -> None:
    """Refuse copies that have lost records, or were recreated, since a loss was stated.

    :param bounds: of the copies when the loss was stated
    :raises Failed: they have
    """
    names, changed, trimmed = context.scope.topics, list[str](), set[TopicPartition]()
    copies = {tp: str(TopicPartition(names[tp.topic], tp.partition)) for tp in positions}
    starts, ends, frontiers = (bounds.get(name, {}) for name in ("starts", "ends", "frontiers"))
    for tp, position in positions.items():
        copy = copies[tp]
        # It had no position then either, or it is the source topic that was created again: DRAIN judges that.
        if copy not in ends or (isinstance(position, Unavailable) and position.reason == RECREATED):
            continue
        if isinstance(position, Unavailable):
            changed.append(f"{copy}: {position.reason}")
        elif position.end < ends[copy]:
            changed.append(f"{copy}: ended at {ends[copy]}, now at {position.end}")
        elif (position.frontier or 0) < frontiers.get(copy, 0):  # older drkits have put down none
            left = position.frontier or "unknown"
            changed.append(f"{copy}: copied up to {frontiers[copy]} of the source, now {left}")
        elif position.start > starts[copy]:
            trimmed.add(tp)
    if trimmed:  # Retention may remove them on both sides.
        before = {(p["topic"], p["partition"]): p["missing"] for p in stated["partitions"]}
        now = asked(context, lambda source: scope_positions(context, source, final=True))
        missing = {tp: p.missing for tp, p in now.items() if isinstance(p, PartitionPosition) and p.missing}
        more = sorted(tp for tp in trimmed & missing.keys() if missing[tp][1] - missing[tp][0] > before[tp])
        changed += [f"{copies[tp]}: it lacks offsets {missing[tp]} of the source" for tp in more]
    if changed:
        raise Failed("copies_changed", where=context.flow.target, evidence=first_of(changed))


def positions_of(
    context: Context, pairs: Collection[CopiedPartition], source: RawCluster | None = None
) -> ScopePositions:
    """Return the current position of some partitions; those of promoted topics cost a fetch each.

    :param source: asked for its ends, or None if nothing more is expected from it
    :raises RawError: the target does not answer
    :raises Failed: the offset map cannot be read
    """
    if not pairs:
        return {}
    reader = context.kept.places_of(context.target, context.flow.source)
    noted = {} if source is not None else noted_ends(context.state.records)
    exact: ScopePositions = context.run(reader.look, pairs, context.known.producers, source, noted)
    return exact
