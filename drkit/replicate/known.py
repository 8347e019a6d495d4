"""What the flow's state on the target says of copied topics, for whoever needs no source for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit.model import TopicPartition
from drkit.offset_map.locate import CopiedPartition
from drkit.replicate import state_topic

_TOPIC: Final = state_topic.topic_key("")


class Producers(NamedTuple):
    """Producer ids of live mode, those whose records the flow leaves out, and who knows what they wrote."""

    current: int
    own: frozenset[int]
    left_out: frozenset[int] = frozenset()
    map_id: str = ""
    """Id of the topic with the map of what they wrote; empty: any topic of that name."""


class Known(NamedTuple):
    """What the target keeps of a flow."""

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


def known_of(values: Mapping[str, Any]) -> Known:
    """From the flow's state as it was loaded."""
    topics = {
        key.removeprefix(_TOPIC): (v["target"], UUID(v["source_id"]), UUID(v["target_id"]))
        for key, v in values.items()
        if key.startswith(_TOPIC) and "target" in v
    }
    ids = values.get(state_topic.PRODUCER_IDS) or {"current": (-1, -1), "all": ()}
    left_out = frozenset((values.get(state_topic.SKIPS) or {}).get("ids", ()))
    map_id = (values.get(state_topic.OFFSET_MAP) or {}).get("topic_id", "")
    return Known(topics, Producers(ids["current"][0], frozenset(ids["all"]), left_out, map_id))
