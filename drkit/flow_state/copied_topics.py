"""What the flow's state on the target says of copied topics. Reads only the target, never the source."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from drkit.flow_state.records import (
    GenerationRecord,
    OffsetMapRecord,
    ProducerIdsRecord,
    RoleRecord,
    SkipsRecord,
)
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition


class CopiedPartition(NamedTuple):
    """A source partition and its copy; the ids tell topics from later ones of the same name (KIP-516)."""

    source: TopicPartition
    target: TopicPartition
    source_id: UUID
    target_id: UUID


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

    @property
    def upstream(self) -> dict[str, str]:
        """Target topic → source topic."""
        return {target: name for name, (target, _, _) in self.topics.items()}

    def pair(self, topic: str, partition: int) -> CopiedPartition:
        """A partition of a source topic and its copy."""
        target, *ids = self.topics[topic]
        return CopiedPartition(TopicPartition(topic, partition), TopicPartition(target, partition), *ids)


def promoted_of(state: FlowState) -> frozenset[str]:
    """Source topics whose copies a failover has opened: producers own these.

    :raises Damaged: a record of them was replaced
    """
    return frozenset(topic for topic, role in state.all(RoleRecord).items() if role.is_promoted)


def known_of(state: FlowState) -> CopiedTopics:
    """The copied topics and the producers in a flow's state.

    :raises Damaged: a record of them was replaced
    """
    topics = {n: (g.target, g.source_id, g.target_id) for n, g in state.all(GenerationRecord).items()}
    ids, skips, offset_map = state.get(ProducerIdsRecord), state.get(SkipsRecord), state.get(OffsetMapRecord)
    producers = Producers(
        ids.current.id if ids is not None else -1,
        frozenset(ids.ids if ids is not None else ()),
        frozenset(skips.ids if skips is not None else ()),
        str(offset_map.topic_id) if offset_map is not None else "",
    )
    return CopiedTopics(topics, producers)
