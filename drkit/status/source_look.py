"""One look at the source of a flow: ends, what open transactions hold back, and who holds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.left_out import LeftOut
from drkit.flow_state.records import SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, all_topics
from drkit.model import TopicPartition
from drkit.status.facts import is_whole_note, noted_ends
from drkit.status.lag.held_back import (
    HeldInPartition,
    OpenTransaction,
    held_back,
    open_transaction,
    with_held,
)
from drkit.status.lag.source import Ends, UncopiedRange, ends_of
from drkit.status.lag.target import CopyPosition

_MOST: Final = 100
"""Maximum number of listed open transactions of one cluster: the oldest."""


class SourceLook(NamedTuple):
    """The source's answer; `ends` may be from an earlier look."""

    topics: dict[str, TopicMetadata]
    ends: dict[TopicPartition, Ends]
    error: str = ""
    seen_ms: int | None = None
    copied_ms: int | None = None
    """Of an earlier look: everything older was copied then; None: not known."""
    held: Mapping[TopicPartition, HeldInPartition] = {}


async def look_at_source(cluster: RawCluster, flow: FlowSettings, skip: LeftOut, now_ms: int) -> SourceLook:
    """Ask the source now.

    :param skip: producers whose records the flow leaves out
    :raises RawError: no answer
    """
    topics = await all_topics(cluster)
    names = [n for n, t in topics.items() if not t.error and flow.copies(n)]
    ends = await ends_of(cluster, topics, names)
    held = await held_back(cluster, topics, ends, skip)
    return SourceLook(topics, with_held(ends, held), "", now_ms, held=held)


def noted_look(state: FlowState, error: str) -> SourceLook:
    """The last recorded state of a source that does not answer."""
    seen = state.get(SourceSeenRecord)
    if seen is None:
        return SourceLook({}, {}, error)
    copied_ms = seen.copied_ms if is_whole_note(state) else None
    return SourceLook({}, noted_ends(state), error, seen.at_ms, copied_ms)


def gaps_of(
    places: Mapping[TopicPartition, CopyPosition], ends: Mapping[TopicPartition, Ends]
) -> list[UncopiedRange]:
    """What replication could copy now: from each frontier up to the last stable offset."""
    return [
        UncopiedRange(at, max(place.frontier, e.start), e.end)
        for at, place in places.items()
        if place.frontier is not None
        and (e := ends.get(at)) is not None
        and e.end > max(place.frontier, e.start)
    ]


def unanswered_in(
    known: Collection[str], flow: FlowSettings, source: SourceLook
) -> dict[str, tuple[int, ...]]:
    """Copied topics for whose partitions the source, which answered, has no leader that answers.

    Not of topics that the flow copied once and leaves out now, nor of partitions that the copy alone has.

    :returns: topic → these partitions; none of a topic that has an error as a whole
    """
    asked = {n: t for n, t in source.topics.items() if n in known and flow.copies(n)}
    found = {
        n: tuple(number for number in sorted(t.leaders) if TopicPartition(n, number) not in source.ends)
        for n, t in asked.items()
    }
    return {n: numbers for n, numbers in found.items() if numbers or asked[n].error}


def partitions_of(
    places: Iterable[TopicPartition], flow: FlowSettings, source: SourceLook
) -> list[TopicPartition]:
    """The partitions of the source; of a silent one those that it may have had when its ends were noted.

    A note that says until when all was copied names every one: what it lacks the copy alone had.
    """
    if not source.error or source.copied_ms is not None:
        return sorted(source.ends)
    return sorted({*source.ends, *(p for p in places if p.partition >= 0 and flow.copies(p.topic))})


def transactions_of(
    cluster: ClusterSettings, held: Mapping[TopicPartition, HeldInPartition], now_ms: int, *, source: bool
) -> tuple[OpenTransaction, ...]:
    """Transactions that hold records back, the oldest first."""
    where = (cluster.alias, cluster.bootstrap_servers)
    found = [
        open_transaction(where, at, one, holder, now_ms, source=source)
        for at, one in held.items()
        for holder in one.holders
    ]
    return tuple(sorted(found, key=lambda t: -(t.age_seconds or 0.0))[:_MOST])
