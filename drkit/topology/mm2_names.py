"""MirrorMaker 2's own topics, as its replication policies call them (KIP-382, KIP-690). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"
"""Both of MM2's policies call it so on the cluster it is written to, whatever the separator."""
DOT: Final = "."


@dataclass(frozen=True, slots=True)
class Mm2Topics:
    """Names of MM2's topics under one separator.

    MM2 since 3.1 puts ``replication.policy.separator`` into them too, unless
    ``replication.policy.internal.topic.separator.enabled`` is false; before, it was always a dot.

    :param separator: the text between their parts
    """

    separator: str = DOT

    @classmethod
    def of(cls, separator: str, *, enabled: bool = True) -> Mm2Topics:
        """The names under a policy's separator; with ``enabled`` false they keep the dot."""
        return cls(separator if enabled else DOT)

    def offset_syncs(self, alias: str) -> str:
        """The topic of offset syncs; the alias is of the cluster on the other side."""
        return f"mm2-offset-syncs{self.separator}{alias}{self.separator}internal"

    def checkpoints(self, source: str) -> str:
        """The topic on the target with the checkpoints of a source's groups."""
        return f"{source}{self._checkpoints}"

    def is_offset_syncs(self, topic: str) -> bool:
        """Whether a topic holds offset syncs of some cluster."""
        begin, end = f"mm2-offset-syncs{self.separator}", f"{self.separator}internal"
        return topic.startswith(begin) and topic.endswith(end) and len(topic) > len(begin) + len(end)

    def checkpoints_of(self, topic: str) -> str | None:
        """The source alias in the name of a checkpoints topic; None for any other topic."""
        return topic.removesuffix(self._checkpoints) if self.is_checkpoints(topic) else None

    def is_checkpoints(self, topic: str) -> bool:
        """Whether a topic holds checkpoints of some source."""
        return topic.endswith(self._checkpoints) and topic != self._checkpoints

    def is_internal(self, topic: str) -> bool:
        """Whether MM2 or one of its Connect workers keeps state there (``isMM2InternalTopic``)."""
        is_workers = topic.startswith("mm2") and topic.endswith(f"{self.separator}internal")
        return is_workers or self.is_checkpoints(topic) or worker_topic(topic) is not None

    @property
    def _checkpoints(self) -> str:
        return f"{self.separator}checkpoints{self.separator}internal"


_WORKER: Final = ("mm2-offsets", "mm2-configs", "mm2-status")


def worker_topic(topic: str) -> tuple[str, str] | None:
    """Kind and source alias of a topic of MM2's Connect workers, as in (``mm2-offsets``, ``primary``).

    They always have dots: only ``offset.storage.topic`` and its kin rename them.
    """
    for kind in _WORKER:
        alias = topic.removeprefix(f"{kind}.").removesuffix(".internal")
        if alias and topic == f"{kind}.{alias}.internal":
            return kind, alias
    return None


def worker_group(source: str) -> str:
    """The group on the target in which the Connect workers of a dedicated MM2 find each other."""
    return f"{source}-mm2"
