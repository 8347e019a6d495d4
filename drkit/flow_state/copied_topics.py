"""What the flow's state on the target says of copied topics. Reads only the target, never the source."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drkit.flow_state.codec.fields import partition_of
from drkit.flow_state.records import (
    CutRecord,
    GenerationRecord,
    OffsetMapRecord,
    ProducerIdsRecord,
    RoleRecord,
    SkipsRecord,
    WrittenRecord,
)
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition

_NO_CUTS: Final[Mapping[TopicPartition, int]] = {}


class CopiedPartition(NamedTuple):
    """A source partition and its copy; the ids tell topics from later ones of the same name (KIP-516)."""

    source: TopicPartition
    target: TopicPartition
    source_id: UUID
    target_id: UUID
    skip_from: int | None = None
    """Source offset from which on no batch is left out because of its producer; None: there is none."""
    until: int | None = None
    """Target offset at which producers began to write when the copy was promoted; None: it was not."""

    def leaves_out(self, offset: int) -> bool:
        """Whether a batch at a source offset is left out if a flow in the other direction wrote it."""
        return self.skip_from is None or offset < self.skip_from


class LeftOut(NamedTuple):
    """Whose records a flow does not copy, and from where on it copies those as well."""

    ids: frozenset[int] = frozenset()
    """Producer ids of flows in the other direction."""
    cuts: Mapping[TopicPartition, int] = _NO_CUTS
    """Source partition → where copying began after a turn: from there on nothing is left out."""

    def ids_at(self, at: TopicPartition, offset: int) -> frozenset[int]:
        """The producers whose batches at a source offset are left out."""
        cut = self.cuts.get(at)
        return self.ids if cut is None or offset < cut else frozenset()

    def divides(self, at: TopicPartition, start: int, end: int) -> int | None:
        """The cut, where it is between two source offsets; else None."""
        cut = self.cuts.get(at)
        return cut if cut is not None and start < cut < end else None


class Producers(NamedTuple):
    """Producer ids of live mode, those whose records the flow leaves out, and who knows what they wrote."""

    current: int
    own: frozenset[int]
    left_out: frozenset[int] = frozenset()
    map_id: str = ""
    """Id of the topic with the map of what they wrote; empty: any topic of that name."""


class CopiedTopics(NamedTuple):
    """The copied topics of a flow, from its state on the target."""

    topics: dict[str, tuple[str, UUID, UUID]]
    """Source topic → its name on the target, and the ids of both."""
    producers: Producers
    cuts: Mapping[TopicPartition, int] = _NO_CUTS
    """Source partition → where copying began after a turn; none where it began at the log start."""
    ends: Mapping[TopicPartition, int] = _NO_CUTS
    """Source partition → where the copy ended when it was promoted; none where it was not."""

    def without(self, topics: Container[str]) -> CopiedTopics:
        """All but some source topics."""
        return self._replace(topics={name: ids for name, ids in self.topics.items() if name not in topics})

    @property
    def left_out(self) -> LeftOut:
        """Whose records the flow does not copy, and where."""
        return LeftOut(self.producers.left_out, self.cuts)

    @property
    def upstream(self) -> dict[str, str]:
        """Target topic → source topic."""
        return {target: name for name, (target, _, _) in self.topics.items()}

    def pair(self, topic: str, partition: int) -> CopiedPartition:
        """A partition of a source topic and its copy."""
        target, source_id, target_id = self.topics[topic]
        at = TopicPartition(topic, partition)
        to, ends = TopicPartition(target, partition), self.ends.get(at)
        return CopiedPartition(at, to, source_id, target_id, self.cuts.get(at), ends)


def promoted_of(state: FlowState) -> frozenset[str]:
    """Source topics whose copies a failover has opened: producers own these.

    :raises Damaged: a record of them was replaced
    """
    return frozenset(topic for topic, role in state.all(RoleRecord).items() if role.is_promoted)


def cuts_of(state: FlowState) -> dict[TopicPartition, int]:
    """Source partition → where its copy began after a turn, of the topics that are copied now.

    :raises Damaged: a record of them was replaced
    """
    topics = state.all(GenerationRecord)
    return {
        TopicPartition(name, partition): offset
        for name, cut in state.all(CutRecord).items()
        if name in topics
        for partition, offset in cut.between(topics[name].source_id, topics[name].target_id).items()
    }


def written_of(state: FlowState) -> dict[TopicPartition, WrittenRecord]:
    """Source partition → the foreign record after which nothing is copied to its copy, since the last turn.

    A record of an earlier turn, or of an earlier topic of the same name, does not count.

    :raises Damaged: a record of them was replaced
    """
    topics, cuts = state.all(GenerationRecord), cuts_of(state)
    out = {}
    for name, found in state.all(WrittenRecord).items():
        at = partition_of(name)
        entry = topics.get(at.topic)
        same = entry is not None and (entry.source_id, entry.target_id) == (found.source_id, found.target_id)
        if same and cuts.get(at) == found.began_at:
            out[at] = found
    return out


def _ends_of(state: FlowState) -> dict[TopicPartition, int]:
    """Source partition → where its copy ended when it was promoted.

    :raises Damaged: a record of it was replaced
    """
    return {
        TopicPartition(name, partition): end
        for name, role in state.all(RoleRecord).items()
        if role.is_promoted
        for partition, end in (role.ends or {}).items()
        if end is not None
    }


def map_id_of(state: FlowState) -> str:
    """The id of the flow's offset map; empty before it is on record."""
    known = state.get(OffsetMapRecord)
    return "" if known is None else str(known.topic_id)


def known_of(state: FlowState) -> CopiedTopics:
    """The copied topics and the producers in a flow's state.

    :raises Damaged: a record of them was replaced
    """
    topics = {n: (g.target, g.source_id, g.target_id) for n, g in state.all(GenerationRecord).items()}
    ids, skips = state.get(ProducerIdsRecord), state.get(SkipsRecord)
    producers = Producers(
        ids.current.id if ids is not None else -1,
        frozenset(ids.ids if ids is not None else ()),
        frozenset(skips.ids if skips is not None else ()),
        map_id_of(state),
    )
    return CopiedTopics(topics, producers, cuts_of(state), _ends_of(state))
