"""``drkit replicate --once``: where a copy with an end ends, and what the groups find when it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from drkit.clock import wall_ms
from drkit.config import FlowSettings
from drkit.errors import ConfigError
from drkit.flow_state.left_out import KeptTail, LeftOut
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.requests import metadata
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.offsets.group_guard import GuardVerdict
from drkit.replicate.planner import PlacedPartition
from drkit.status.lag.held_back import HeldInPartition, held_back
from drkit.status.lag.source import Ends
from drkit.status.progress import Totals
from drkit.status.source_look import transactions_of
from drkit.status.sums import HeldPartition, held_partitions

_AGAIN: Final = frozenset(
    {GuardVerdict.WRITE, GuardVerdict.REFRESH, GuardVerdict.NOT_STORED, GuardVerdict.NOT_TOLD}
)
"""After these another round is useful: it reads back what was written, and retries what failed."""
_LEFT: Final = frozenset({GuardVerdict.NOT_STORED, GuardVerdict.NOT_TOLD})
"""Verdicts of offsets that should have been written; all others are final by the guard's table."""


def nothing_to_copy(flow: FlowSettings) -> ConfigError:
    """The error for a copy with an end that would copy nothing."""
    return ConfigError(
        "no_topic_matches", where=f"flow {flow.name}", evidence=f"topics = {list(flow.topics)}"
    )


class Bound(NamedTuple):
    """End offsets of a copy with an end, read at its start."""

    ends: dict[TopicPartition, int]
    """The last stable offsets of the source's partitions."""
    held: tuple[HeldPartition, ...]
    """What open transactions held back behind these."""

    def is_reached(self, totals: Totals) -> bool:
        """Return whether every partition is copied to its end, or left alone."""
        return all(
            str(at) in totals.stopped or totals.frontiers.get(at, -1) >= end for at, end in self.ends.items()
        )


def bound_now(source: Cluster, placed: Sequence[PlacedPartition], skip: Collection[int]) -> Bound:
    """Return the source partitions' current end offsets.

    :param skip: producers whose records the flow leaves out, as the leases say
    :raises DrkitError: the source does not answer
    """
    partitions = [_source_of(p) for p in placed]
    ends = list_offsets(source, partitions, "latest", committed=True)
    marks = list_offsets(source, partitions, "latest")
    cuts = {_source_of(p): p.lease.skip_from for p in placed if p.lease.skip_from is not None}
    rebuilt = {_source_of(p) for p in placed if p.lease.rebuilt_from is not None}
    kept = {
        _source_of(p): KeptTail(p.lease.kept_to, frozenset(p.lease.kept_ids))
        for p in placed
        if p.lease.kept_to is not None
    }
    left_out = LeftOut(frozenset(skip), cuts, rebuilt, kept)
    above = {at: Ends(end, end, marks[at]) for at, end in ends.items() if marks[at] > end}

    async def look(cluster: RawCluster) -> dict[TopicPartition, HeldInPartition]:
        topics = await metadata(cluster, sorted({at.topic for at in above}))
        return await held_back(cluster, topics, above, left_out)

    now = wall_ms()
    held = ask_once(source.settings, "held-back", look, what="ask for open transactions") if above else {}
    transactions = transactions_of(source.settings, held, now, source=True)
    return Bound(ends, held_partitions({at: h.back for at, h in held.items()}, transactions, now))


def bounded(placed: Sequence[PlacedPartition], ends: Mapping[TopicPartition, int]) -> list[PlacedPartition]:
    """Leases up to these ends; a partition without one came later and is left out."""
    at = [(p, _source_of(p)) for p in placed]
    return [PlacedPartition(replace(p.lease, end=ends[where]), p.leader) for p, where in at if where in ends]


def _source_of(placed: PlacedPartition) -> TopicPartition:
    return TopicPartition(placed.lease.source_topic, placed.lease.partition)


def wants_another_round(summary: Mapping[str, Any]) -> bool:
    """Return whether the last checkpoint round may be followed by a better one."""
    return bool(summary["error"] or summary["unread"] or _any(_AGAIN, summary))


def groups_left(summary: Mapping[str, Any]) -> bool:
    """Return whether positions of groups are missing on the target that no rule forbids."""
    return bool(summary) and bool(summary["error"] or summary["unread"] or _any(_LEFT, summary))


def _any(verdicts: frozenset[GuardVerdict], summary: Mapping[str, Any]) -> bool:
    return any(verdict.name in summary["verdicts"] for verdict in verdicts)
