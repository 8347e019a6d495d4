"""One look at the source of a flow: ends, what open transactions hold back, and who holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.copied_topics import CopiedTopics
from drkit.flow_state.records import SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, all_topics
from drkit.kafka.topics import not_deleted
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
_REASONS: Final = {
    codes.NONE: "it has no leader on the source that answers",
    codes.NO_ANSWER: "the source does not list the topic, and one of its brokers does not answer",
    codes.TOPIC_AUTHORIZATION_FAILED: "drkit may not see the topic on the source",
}


class SourceLook(NamedTuple):
    """The source's answer; `ends` may be from an earlier look."""

    topics: dict[str, TopicMetadata]
    """Those that it lists, and copied ones that are not proven deleted, which have an error."""
    ends: dict[TopicPartition, Ends]
    error: str = ""
    seen_ms: int | None = None
    copied_ms: int | None = None
    """Of an earlier look: everything older was copied then; None: not known."""
    held: Mapping[TopicPartition, HeldInPartition] = {}

    def no_end_of(self, tp: TopicPartition) -> str:
        """Return why a source that answered did not return the end of a partition; empty if it did."""
        if self.error or tp in self.ends:
            return ""
        error = self.topics[tp.topic].error
        return _REASONS.get(error) or f"the source answers {codes.error_name(error)}"


async def look_at_source(
    cluster: RawCluster, flow: FlowSettings, known: CopiedTopics, now_ms: int
) -> SourceLook:
    """Ask the source now. Raises RawError: no answer."""
    topics = await all_topics(cluster)
    unlisted = {n for n in known.topics if n not in topics and flow.copies(n)}
    topics |= await not_deleted(cluster, unlisted)
    names = [n for n, t in topics.items() if not t.error and flow.copies(n)]
    ends = await ends_of(cluster, topics, names)
    held = await held_back(cluster, topics, ends, known.left_out)
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


def partitions_of(
    places: Iterable[TopicPartition], flow: FlowSettings, source: SourceLook
) -> list[TopicPartition]:
    """Return the partitions of the source, also those without an end in its answer.

    Of a topic that it does not describe, and of a silent source, they are those of the copy. A note of the
    ends that says until when all was copied names every one: what it lacks the copy alone had.
    """
    described = {n: t for n, t in source.topics.items() if flow.copies(n)}
    found = {TopicPartition(n, number) for n, t in described.items() for number in t.leaders or (0,)}
    is_open = bool(source.error) and source.copied_ms is None
    hidden = {n for n, t in described.items() if not t.leaders}
    found |= {p for p in places if p.topic in hidden or (is_open and flow.copies(p.topic))}
    return sorted({*source.ends, *(p for p in found if p.partition >= 0)})


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
