"""The newest checkpoint of every group, read from the target's topic and then followed (KIP-382)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.kafka.reading.log_end import LogRestarted
from drkit.kafka.reading.log_tail import LARGE_BYTES, LogTail
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, CheckpointSeen, ForgottenCheckpoint, is_checkpoint
from drkit.wire import Record

READ_SECONDS: Final = 20.0


class CheckpointTail:
    """Reads a checkpoint topic incrementally. Use it from one thread.

    :param topic: its name on the target
    """

    def __init__(self, target: ClusterSettings, topic: str) -> None:
        self._target, self._at = target, TopicPartition(topic, 0)
        self._id: UUID | None = None
        self._fresh: dict[bytes, Record] = {}
        self._begin()

    def _begin(self) -> None:
        self._tail = LogTail(self._target, self._at, self._keep, self._pass_over, unpacked_bytes=LARGE_BYTES)
        self.newest: dict[str, dict[TopicPartition, CheckpointSeen]] = {}
        """Group → partition of the target → its checkpoint."""
        self.gone: set[str] = set()
        """Groups whose checkpoints were all taken back: they were deleted on the source."""
        self.unreadable = 0
        """Number of records that are not checkpoints; they hide no checkpoint."""

    def read(self, topic_id: UUID | None, seconds: float = READ_SECONDS) -> str:
        """Read up to the end; returns why that failed, empty when everything is read.

        :param topic_id: current id of the topic, or None if it does not exist. With a changed id the
            checkpoints of the old topic are dropped.
        """
        if topic_id != self._id:
            self.close()
            self._id = topic_id
            self._begin()
        if topic_id is None:
            return ""
        try:
            self._tail.read(seconds)
        except DrkitError as error:
            if isinstance(error, LogRestarted):
                self._id = None  # the next read begins at the start
            return error.evidence
        finally:
            for key, record in self._fresh.items():
                self._take(key, record)
            self._fresh.clear()
        return ""

    def _pass_over(self, _offset: int, _why: str) -> None:
        self.unreadable += 1

    def _keep(self, record: Record) -> None:
        """Decode only the newest record of each position; an unreadable one hides no older checkpoint."""
        if record.value and not is_checkpoint(record.value):
            self.unreadable += 1
        elif record.key is not None:
            self._fresh[record.key] = record

    def _take(self, key: bytes, record: Record) -> None:
        try:
            if not record.value:
                self._forget(ForgottenCheckpoint.decode(key))
                return
            found = Checkpoint.decode(key, record.value)
        except ValueError:
            self.unreadable += 1
            return
        at = TopicPartition(found.topic, found.partition)
        known = CheckpointSeen(found.upstream, found.downstream, record.timestamp)
        self.newest.setdefault(found.group, {})[at] = known
        self.gone.discard(found.group)

    def _forget(self, gone: ForgottenCheckpoint) -> None:
        of_group = self.newest.get(gone.group, {})
        of_group.pop(TopicPartition(gone.topic, gone.partition), None)
        if not of_group:
            self.newest.pop(gone.group, None)
            self.gone.add(gone.group)

    def close(self) -> None:
        """Close the connection; the checkpoints read stay."""
        self._tail.close()
