"""The checkpoints of a flow on its target, read incrementally."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.kafka.reading.log_tail import LARGE_BYTES, LogTail
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, group_of, is_checkpoint, latest
from drkit.wire import Record

_SECONDS: Final = 30.0


class CheckpointLog:
    """Keeps the newest readable record of every key.

    :param topic: ``<source>.checkpoints.internal``, of MirrorMaker 2's format (KIP-382)
    """

    def __init__(self, target: ClusterSettings, topic: str) -> None:
        self._target, self._at = target, TopicPartition(topic, 0)
        self._id: UUID | None = None
        self._values: dict[bytes, bytes] = {}
        self._gone: set[bytes] = set()
        self._tail = LogTail(target, self._at, self._take, unpacked_bytes=LARGE_BYTES)

    @property
    def gone(self) -> set[str]:
        """Groups whose checkpoints were all taken back: they were deleted on the source."""
        return {str(group_of(key)) for key in self._gone} - {str(group_of(key)) for key in self._values}

    @property
    def name(self) -> str:
        """Name of the topic."""
        return self._at.topic

    def read(self, topic: TopicMetadata, groups: Collection[str] | None = None) -> list[Checkpoint]:
        """Return the newest checkpoints; empty if the topic does not exist.

        :param topic: the target's current metadata of the topic
        :param groups: only checkpoints of these groups; None: of all groups
        :raises DrkitError: the checkpoints cannot be read
        """
        now = topic.topic_id if topic.leaders else None
        if now != self._id:
            self._tail.close()
            self._id, self._values, self._gone = now, {}, set()
            self._tail = LogTail(self._target, self._at, self._take, unpacked_bytes=LARGE_BYTES)
        if now is not None:
            try:
                self._tail.read(_SECONDS)
            finally:
                self._tail.close()
        wanted = None if groups is None else set(groups)
        mine = ((k, v) for k, v in self._values.items() if wanted is None or group_of(k) in wanted)
        return list(latest(mine, Checkpoint.decode).values())

    def _take(self, record: Record) -> None:
        if record.key is None:
            return
        if not record.value:
            self._values.pop(record.key, None)
            self._gone.add(record.key)
        elif is_checkpoint(record.value):
            self._values[record.key] = record.value
            self._gone.discard(record.key)
