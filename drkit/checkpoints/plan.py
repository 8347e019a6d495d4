"""What the checkpoint rounds of a flow look at: its groups, and all else that a task must know."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
import random
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from drkit.checkpoints.other_groups import OtherGroup, is_consumer, other_groups
from drkit.checkpoints.shard import NO_ROUND, Shard, shards_of
from drkit.checkpoints.summary import promoted_topics
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.copied_topics import CopiedTopics, known_of
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import listed_groups
from drkit.kafka.topics import broker_config
from drkit.mm2_topics.checkpoint_topic import CheckpointTail, ensure_checkpoint_topic
from drkit.mm2_topics.topic import tell_remade
from drkit.model import TopicPartition

T = TypeVar("T")
GROUPS_PER_SHARD: Final = 500
_RETENTION: Final = "offsets.retention.minutes"
_RECORDED_AT_ONCE: Final = 5000
"""Checkpoints that one round takes back at most."""
_SHARE: Final = 4
"""Unchanged offsets are written again after this fraction of the target's retention."""


class Terms(NamedTuple):
    """What holds for all groups; when it changes, every group has to be looked at."""

    source: str
    known: CopiedTopics
    topic: str
    topic_id: str
    refresh_ms: int
    promoted: frozenset[str]

    def widened(self, later: Terms) -> bool:
        """Whether `later` only has more topics: a group's known offsets in the others stay valid."""
        known, wanted = self.known, later.known
        own = wanted.producers.own
        return (
            self._replace(known=wanted) == later
            and known.topics.items() <= wanted.topics.items()
            and known.producers._replace(own=own) == wanted.producers
            and known.producers.own <= own
            and _widens(known.topics, known.cuts, wanted.cuts)
            and _widens(known.topics, known.rebuilt, wanted.rebuilt)
            and _widens(known.topics, known.emptied, wanted.emptied)
            and _widens(known.topics, known.crossings, wanted.crossings)
            and _widens(known.topics, known.kept, wanted.kept)
        )


def _widens(
    topics: Container[str], known: Mapping[TopicPartition, T], wanted: Mapping[TopicPartition, T]
) -> bool:
    """Whether the values of known partitions are unchanged, and new partitions belong to other topics."""
    return known.items() <= wanted.items() and not any(
        at.topic in topics for at in wanted.keys() - known.keys()
    )


class GroupsFrame(NamedTuple):
    """The groups of a flow at one moment."""

    terms: Terms
    groups: frozenset[str]
    gone: tuple[str, ...] = ()
    """Groups that are no longer on the source and are to be deleted on the target."""
    others: tuple[OtherGroup, ...] = ()
    """Groups that the flow's filter accepts and that are not consumer groups."""
    recorded: tuple[tuple[str, str, int], ...] = ()
    """Checkpoints whose group or topic seems to be gone, as in a shard."""

    def shards(
        self,
        groups: Sequence[str],
        last: Iterable[int],
        number: int = NO_ROUND,
        *,
        gone: tuple[str, ...] = (),
        recorded: tuple[tuple[str, str, int], ...] = (),
        sync: bool,
        quick: frozenset[str] = frozenset(),
    ) -> list[Shard]:
        """Some of the groups as shards.

        :param last: for each group the number of the round that looked at it last
        :param number: number of the round
        :param quick: groups that are finished when the source has nothing new
        """
        rounds = dict(zip(groups, last, strict=True))
        parts = shards_of(list(groups), GROUPS_PER_SHARD) or ([()] if gone or recorded else [])
        terms = self.terms
        return [
            Shard(
                number=index,
                source=terms.source,
                groups=names,
                known=terms.known,
                topic=terms.topic,
                sync=sync,
                refresh_ms=terms.refresh_ms,
                promoted=terms.promoted,
                gone=gone if index == 0 else (),
                recorded=recorded if index == 0 else (),
                topic_id=terms.topic_id,
                round=number,
                last=tuple(rounds[g] for g in names),
                quick=quick.intersection(names),
            )
            for index, names in enumerate(parts)
        ]


class FrameLook:
    """Asks both clusters for the frame, as often as needed.

    :param clusters: source and target
    :param waiting: source topics that are not copied before their return: no group gets a position there
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._clusters, self._waiting = clusters, waiting
        self._refresh_ms = 0
        self._topic_id: UUID | None = None
        self._tail: CheckpointTail | None = None

    def look(self, flow: FlowSettings, state: FlowState) -> GroupsFrame | None:
        """As it is now; None when nothing was copied yet.

        :param state: the flow's state
        :raises DrkitError: a cluster does not answer
        """
        known = known_of(state).without(self._waiting())
        if not known.topics:
            return None
        target = Cluster.connect(self._clusters[1])
        topic = flow.mm2_topics.checkpoints(flow.source) if flow.emit_checkpoints else ""
        if topic:
            found = ensure_checkpoint_topic(target, topic, flow.checkpoints_topic_replication_factor)
            tell_remade(flow.name, target, topic, self._topic_id, found)
            self._topic_id = found
        if not self._refresh_ms:
            minutes = min(int(broker_config(target, b.id)[_RETENTION].value or 0) for b in target.brokers)
            self._refresh_ms = max(1, minutes * 60_000 // _SHARE)
        on_source = listed_groups(self._clusters[0])
        accepted = flow.group_filter.accepts
        groups = frozenset(g for g, x in on_source.items() if is_consumer(x) and accepted(g))
        gone: list[str] = []
        if flow.on_source_group_deleted == "mirror":
            gone = sorted(g for g in listed_groups(self._clusters[1]) if g not in on_source and accepted(g))
        promoted = frozenset(promoted_topics(state))
        topic_id = str(self._topic_id or "")
        terms = Terms(flow.source, known, topic, topic_id, self._refresh_ms, promoted)
        recorded = self._recorded(topic, on_source, accepted, known.upstream) if topic else ()
        return GroupsFrame(terms, groups, tuple(gone), other_groups(on_source, accepted), recorded)

    def _recorded(
        self,
        topic: str,
        on_source: Container[str],
        accepted: Callable[[str], bool],
        copies: Container[str],
    ) -> tuple[tuple[str, str, int], ...]:
        """Return checkpoints of groups that the source does not list, or of topics that are not copied."""
        if self._tail is None:
            self._tail = CheckpointTail(self._clusters[1], topic)
        try:
            self._tail.read(self._topic_id)
        except DrkitError:
            return ()  # continue at the next look
        found = [
            (group, *at)
            for group, partitions in self._tail.newest.items()
            if accepted(group)
            for at in partitions
            if group not in on_source or at.topic not in copies
        ]
        # The source may not confirm some of them: then others are asked next.
        return tuple(random.sample(found, min(len(found), _RECORDED_AT_ONCE)))

    def close(self) -> None:
        """Close the connections."""
        if self._tail is not None:
            self._tail.close()
