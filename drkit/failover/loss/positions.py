"""The position of every partition in a run's scope: the offset map checked against the target's log."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from drkit.failover.core.context import Context
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition
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
