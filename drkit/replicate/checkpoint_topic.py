"""The topic ``<source>.checkpoints.internal`` on the target, as MirrorMaker 2 has it (KIP-382)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.replicate.mm2_topic import Mm2Topic, ensure_mm2_topic

_REPLICAS: Final = 3


def ensure_checkpoint_topic(target: Cluster, name: str, replicas: int = _REPLICAS) -> UUID:
    """Create the topic where it is missing, and return its id.

    :raises DrkitError: it cannot be created
    """
    return ensure_mm2_topic(target, name, replicas)


class CheckpointTopic(Mm2Topic):
    """Writes checkpoints, durably."""

    def __init__(self, target: ClusterSettings, name: str) -> None:
        super().__init__(target, name, "checkpoints")
