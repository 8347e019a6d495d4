"""The topic ``<source>.checkpoints.internal`` on the target, as MirrorMaker 2 has it (KIP-382)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics
from drkit.mm2_topics.topic import Mm2Topic, ensure_mm2_topic, read_mm2_topic
from drkit.offsets.mm2_records import Checkpoint

_REPLICAS: Final = 3


def ensure_checkpoint_topic(target: Cluster, name: str, replicas: int = _REPLICAS) -> UUID:
    """Create the topic where it is missing, and return its id.

    :raises DrkitError: it cannot be created
    """
    return ensure_mm2_topic(target, name, replicas)


def read_checkpoints(target: Cluster, name: str) -> tuple[list[Checkpoint], list[str]]:
    """The last readable checkpoint of every group and partition, and a line about each unreadable record.

    :raises DrkitError: the topic is there and cannot be read
    """
    if name not in describe_topics(target, [name]):
        return [], []
    found: dict[bytes, Checkpoint] = {}
    bad: list[str] = []
    for offset, _, key, value, _ in read_mm2_topic(target.settings, name):
        if key is not None and value is not None:
            try:
                found[key] = Checkpoint.decode(key, value)
            except ValueError as error:
                bad.append(f"the one at offset {offset}: {error}")
    return list(found.values()), bad


class CheckpointTopic(Mm2Topic):
    """Writes checkpoints, durably."""

    def __init__(self, target: ClusterSettings, name: str) -> None:
        super().__init__(target, name, "checkpoints")
