"""The topic ``<source>.checkpoints.internal`` on the target, as MirrorMaker 2 has it (KIP-382)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.log_tail import LogRestarted, LogTail
from drkit.mm2_topics.topic import Mm2Topic, ensure_mm2_topic
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, CheckpointSeen, ForgottenCheckpoint, group_of, is_checkpoint
from drkit.wire import Record

_REPLICAS: Final = 3
_READ_SECONDS: Final = 20.0
_LARGEST: Final = 1 << 17
"""Bytes of a checkpoint: a group, a topic and metadata, of at most 32,767 bytes each."""
Checkpoints = dict[str, dict[TopicPartition, CheckpointSeen]]
"""Group → partition of the target → its newest checkpoint."""


def ensure_checkpoint_topic(target: Cluster, name: str, replicas: int = _REPLICAS) -> UUID:
    """Create the topic where it is missing, and return its id. Raises DrkitError if it cannot be created."""
    return ensure_mm2_topic(target, name, replicas)


class CheckpointTopic(Mm2Topic):
    """Writes checkpoints, durably."""

    def __init__(self, target: ClusterSettings, name: str) -> None:
        super().__init__(target, name, "checkpoints")


class CheckpointTail:
    """Follows the newest checkpoint of every group. Use it from one thread.

    A checkpoint is decoded when its group is asked for: a failover asks for few of them.

    :param topic: its name on the target
    """

    def __init__(self, target: ClusterSettings, topic: str) -> None:
        self.name, self._target = topic, target
        self._id: UUID | None = None
        self._begin()

    def _begin(self) -> None:
        at = TopicPartition(self.name, 0)
        self._tail = LogTail(self._target, at, self._take, self._pass_over)
        self._fresh: dict[str, dict[bytes, Record]] = {}
        """Group → key → its newest record, while it is not decoded."""
        self._newest: Checkpoints = {}
        self.gone: set[str] = set()
        """Groups whose checkpoints were all taken back: they were deleted on the source."""
        self.unreadable = 0
        """Number of records that are not checkpoints; they hide no checkpoint."""
        self.first_unreadable = ""

    def read(self, topic_id: UUID | None) -> None:
        """Read up to the end.

        :param topic_id: current id of the topic, or None if it does not exist. With a changed id the
            checkpoints of the old topic are dropped.
        :raises DrkitError: the checkpoints cannot be read
        """
        if topic_id != self._id:
            self.close()
            self._id = topic_id
            self._begin()
        if topic_id is None:
            return
        try:
            self._tail.read(_READ_SECONDS)
        except LogRestarted:
            self._id = None  # the next read begins at the start
            raise

    @property
    def newest(self) -> Checkpoints:
        """The checkpoints of all groups."""
        for group in list(self._fresh):
            self._decode(group)
        return self._newest

    def of(self, groups: Iterable[str] | None) -> Checkpoints:
        """Return the checkpoints of some groups, or of all groups for None."""
        if groups is None:
            return self.newest
        for group in groups:
            self._decode(group)
        return {group: self._newest[group] for group in groups if group in self._newest}

    def _pass_over(self, offset: int, reason: str) -> None:
        self.unreadable += 1
        self.first_unreadable = self.first_unreadable or f"the one at offset {offset}: {reason}"

    def _take(self, record: Record) -> None:
        if record.key is None:
            return
        group = group_of(record.key)
        is_large = len(record.key) + len(record.value or b"") > _LARGEST
        if group is None or is_large or (record.value and not is_checkpoint(record.value)):
            self._pass_over(record.offset, _fault(record))
        elif record.value:
            self._fresh.setdefault(group, {})[record.key] = record
            self.gone.discard(group)
        else:
            self._forget(group, record.key, record.offset)

    def _decode(self, group: str) -> None:
        for key, record in self._fresh.pop(group, {}).items():
            try:
                checkpoint = Checkpoint.decode(key, record.value or b"")
            except ValueError as error:
                self._pass_over(record.offset, str(error))
                continue
            newest = CheckpointSeen(checkpoint.upstream, checkpoint.downstream, record.timestamp)
            tp = TopicPartition(checkpoint.topic, checkpoint.partition)
            self._newest.setdefault(group, {})[tp] = newest

    def _forget(self, group: str, key: bytes, offset: int) -> None:
        self._decode(group)
        try:
            gone = ForgottenCheckpoint.decode(key)
        except ValueError as error:
            self._pass_over(offset, str(error))
            return
        of_group = self._newest.get(group, {})
        of_group.pop(TopicPartition(gone.topic, gone.partition), None)
        if not of_group:
            self._newest.pop(group, None)
            self.gone.add(group)

    def close(self) -> None:
        """Close the connection; the checkpoints read stay."""
        self._tail.close()


def _fault(record: Record) -> str:
    try:
        Checkpoint.decode(record.key or b"", record.value or b"")
    except ValueError as error:
        return str(error)
    return "it is no checkpoint, or too large"
