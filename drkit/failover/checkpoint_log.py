"""The checkpoints of a flow on its target, read on from where the last look ended."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from confluent_kafka import Message

from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, group_of, is_checkpoint, latest
from drkit.replicate.log_reader import read_partitions


class CheckpointLog:
    """Keeps the newest readable record of every key.

    :param topic: ``<source>.checkpoints.internal``, of MirrorMaker 2's format (KIP-382)
    """

    def __init__(self, target: Cluster, topic: str) -> None:
        self._target, self._at = target, TopicPartition(topic, 0)
        self._id: UUID | None = None
        self._next = 0
        self._values: dict[bytes, bytes] = {}

    def read(self, groups: Collection[str] | None = None) -> list[Checkpoint]:
        """The newest checkpoints as they stand there now; none where there is no such topic.

        :param groups: only theirs; None: those of all
        :raises DrkitError: they cannot be read
        """
        found = describe_topics(self._target, [self._at.topic]).get(self._at.topic)
        now = found.topic_id if found is not None else None
        if now != self._id:
            self._id, self._next, self._values = now, 0, {}
        if now is not None:
            read_partitions(self._target.settings, {self._at: self._next}, self._take)
        wanted = None if groups is None else set(groups)
        mine = ((k, v) for k, v in self._values.items() if wanted is None or group_of(k) in wanted)
        return list(latest(mine, Checkpoint.decode).values())

    def _take(self, message: Message) -> None:
        key, value = message.key(), message.value()
        self._next = (message.offset() or 0) + 1
        if not isinstance(key, bytes):
            return
        if not isinstance(value, bytes):
            self._values.pop(key, None)
        elif is_checkpoint(value):
            self._values[key] = value
