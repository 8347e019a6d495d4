"""The newest checkpoint of every group, read from the target's topic and then followed (KIP-382)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.kafka.client_config import confluent_config
from drkit.kafka.clients import (
    OFFSET_BEGINNING,
    ConfluentPartition,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from drkit.kafka.quiet import QUIET
from drkit.kafka.reading.groupless import is_passed_over
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint, CheckpointSeen, ForgottenCheckpoint, is_checkpoint

_AT_ONCE: Final = 10_000
_POLL_SECONDS: Final = 0.2
READ_SECONDS: Final = 20.0


class CheckpointTail:
    """Reads a checkpoint topic incrementally. Use it from one thread.

    :param topic: its name on the target
    """

    def __init__(self, target: ClusterSettings, topic: str) -> None:
        self._target, self._topic = target, topic
        self._consumer: Consumer | None = None
        self._id: UUID | None = None
        self._position = 0
        self.newest: dict[str, dict[TopicPartition, CheckpointSeen]] = {}
        """Group → partition of the target → its checkpoint."""
        self.gone: set[str] = set()
        """Groups whose checkpoints were all taken back: they were deleted on the source."""
        self.unreadable = 0
        """Number of records that are not checkpoints; they hide no checkpoint."""

    def read(self, topic_id: UUID | None, seconds: float = READ_SECONDS) -> str:
        """Read up to the end; returns why that failed, empty when everything is read.

        :param topic_id: current id of the topic; None: it does not exist. A changed id is a new topic, and
            the checkpoints of the old topic are dropped.
        """
        if topic_id != self._id:
            self.close()
            self._id, self.newest, self.gone, self.unreadable = topic_id, {}, set(), 0
        if topic_id is None:
            return ""
        try:
            return self._read(self._consumer or self._open(), monotonic() + seconds)
        except KafkaException as error:
            self.close()
            return str(error.args[0].str())

    def _open(self) -> Consumer:
        self._consumer = Consumer(
            {
                **confluent_config(self._target),
                "group.id": "drkit-reader",  # never used as a group
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            },
            logger=QUIET,
        )
        self._position = 0
        self._consumer.assign([ConfluentPartition(self._topic, 0, OFFSET_BEGINNING)])
        return self._consumer

    def _read(self, consumer: Consumer, deadline: float) -> str:
        fresh: dict[bytes, Message] = {}
        try:
            return self._read_to_end(consumer, deadline, fresh)
        finally:
            for key, message in fresh.items():
                self._take(key, message)

    def _read_to_end(self, consumer: Consumer, deadline: float, fresh: dict[bytes, Message]) -> str:
        end = consumer.get_watermark_offsets(ConfluentPartition(self._topic, 0), _POLL_SECONDS * 25)[1]
        while self._position < end:
            for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
                error = message.error()
                if error is None:
                    self._position = (message.offset() or 0) + 1
                    self._keep(message, fresh)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                    # The position also passes records that compaction removed, which no message shows.
                    self._position = end = message.offset() or 0
                elif not is_passed_over(error):
                    raise KafkaException(error)
            if monotonic() > deadline:
                return f"the checkpoints in {self._topic} could not be read to their end at {end}"
        return ""

    def _keep(self, message: Message, fresh: dict[bytes, Message]) -> None:
        """Decode only the newest record of each position; an unreadable one hides no older checkpoint."""
        key, value = message.key(), message.value()
        if isinstance(value, bytes) and value and not is_checkpoint(value):
            self.unreadable += 1
        elif isinstance(key, bytes):
            fresh[key] = message

    def _take(self, key: bytes, message: Message) -> None:
        value = message.value()
        try:
            if not isinstance(value, bytes) or not value:
                self._forget(ForgottenCheckpoint.decode(key))
                return
            found = Checkpoint.decode(key, value)
        except ValueError:
            self.unreadable += 1
            return
        at = TopicPartition(found.topic, found.partition)
        known = CheckpointSeen(found.upstream, found.downstream, message.timestamp()[1])
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
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
