"""Ranges of partitions read with an ordinary consumer: what an application would see."""

from __future__ import annotations

from collections.abc import Iterator
import gc
from operator import methodcaller
import time
from typing import Any, Final

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.clients import (
    ConfluentPartition,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    confluent_config,
)
from drkit.model import ConsumedRecord, TopicPartition

_QUEUE_KIB: Final = 4 * 1024
"""KiB that a consumer may prefetch."""
_FETCH_BYTES: Final = 1 << 20
_PIECE: Final = 500
_POLL_SECONDS: Final = 0.02
"""Seconds after which a batch is passed on even if it is not full."""
_PATIENCE_SECONDS: Final = 60.0
_START_SECONDS: Final = 1.0
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001  the constant's only name


class RangeReader:
    """A consumer of one cluster that reads ranges of offsets.

    It belongs to no group: partitions are assigned, nothing is committed.

    :param committed: leave out records of aborted and open transactions
    """

    def __init__(self, settings: ClusterSettings, *, committed: bool = True) -> None:
        self._alias = settings.alias
        self._consumer = Consumer(
            {
                **confluent_config(settings),
                "group.id": "drkit-verify",  # librdkafka requires one; without a subscription it is not sent
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.partition.eof": True,
                # Retention may pass the position: continue at the log's start, the comparison expects it.
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "queued.min.messages": 20_000,
                "queued.max.messages.kbytes": _QUEUE_KIB,
                # The default of 1 s is how long a fast reader would wait for the next fetch.
                "fetch.queue.backoff.ms": 2,
                "fetch.message.max.bytes": _FETCH_BYTES,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )

    def read(self, partition: TopicPartition, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the records in [start, stop). Raises Failed if the cluster refuses, or is silent for long."""
        for message in self.messages(partition, start, stop):
            offset: Any = message.offset()
            yield ConsumedRecord(
                offset, message.key(), message.value(), all_headers(message), message.timestamp()[1]
            )

    def messages(self, partition: TopicPartition, start: int, stop: int) -> Iterator[Message]:
        """Yield them as the client library has them. Raises as :meth:`read` does."""
        if start >= stop:
            return
        self._consumer.assign([ConfluentPartition(partition.topic, partition.partition, start)])
        heard = time.monotonic()
        while True:
            messages = self._consumer.consume(_PIECE, _POLL_SECONDS)
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() == _END:
                        return
                    self._trouble(error, partition)
                    continue
                heard = 0.0
                offset: Any = message.offset()
                if (
                    start <= offset < stop
                ):  # before: the log now ends before `start`, and the consumer was reset
                    yield message
                if offset + 1 >= stop:
                    return
            if heard == 0.0:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise self._silent(partition)

    def log_start(self, partition: TopicPartition) -> int:
        """Return the partition's current first offset. Raises Failed if the cluster does not answer."""
        return self._ends(partition)[0]

    def log_end(self, partition: TopicPartition) -> int:
        """Return the end, or the last stable offset of committed records. Raises Failed without an answer."""
        return self._ends(partition)[1]

    def _ends(self, partition: TopicPartition) -> tuple[int, int]:
        where = ConfluentPartition(partition.topic, partition.partition)
        try:
            low, high = self._consumer.get_watermark_offsets(where, timeout=_PATIENCE_SECONDS)
        except KafkaException as error:
            raise self._silent(partition) from error
        return int(low), int(high)

    def _trouble(self, error: KafkaError, partition: TopicPartition) -> None:
        if error.fatal() or not is_passed_over(error):
            raise Failed(
                "verify_partition_unreadable",
                where=f"{self._alias}: {partition}",
                evidence=f"{error.name()} ({error.code()}): {error.str()}",
            )

    def _silent(self, partition: TopicPartition) -> Failed:
        evidence = f"nothing arrived for {_PATIENCE_SECONDS:.0f} s"
        return Failed("verify_cluster_silent", where=f"{self._alias}: {partition}", evidence=evidence)

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()


class LogStart:
    """A partition's current first offset; requested at most once a second."""

    def __init__(self, reader: RangeReader, partition: TopicPartition) -> None:
        self._reader = reader
        self._partition = partition
        self._known = 0
        self._asked = float("-inf")

    def __call__(self) -> int:
        """The partition's current first offset."""
        if time.monotonic() - self._asked > _START_SECONDS:
            self._known = self._reader.log_start(self._partition)
            self._asked = time.monotonic()
        return self._known


def is_passed_over(error: KafkaError) -> bool:
    """Return whether a consumer without a group continues after this error.

    librdkafka needs a group's name and looks for its coordinator, which drkit does not use. If an authorizer
    does not allow that group, its refusal arrives between the records.
    """
    return bool(error.retriable()) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


NOT_TEXT: Final = "\0"
"""Replaces a name that is not UTF-8. No other name is equal: librdkafka ends names at a zero byte."""
_CALL: Final = methodcaller("headers")
"""A call from C: its result is always checked."""


def all_headers(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of any record; a name that is not UTF-8 is :data:`NOT_TEXT`."""
    return [_readable(header) for header in _kept(message)]


def _kept(message: Message) -> list[Any]:
    for _ in range(2):  # the first call raises for a name that is not UTF-8; the second returns the list
        try:
            return _CALL(message) or []
        except (SystemError, UnicodeDecodeError):
            continue
    return []


def _readable(header: tuple[Any, Any]) -> tuple[str, bytes | None]:
    items = gc.get_referents(header)  # leaves out a null pointer
    return header if len(items) == len(header) else (NOT_TEXT, items[0])
