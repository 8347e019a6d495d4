"""Partition 0 of a topic on a real broker: as bytes, and as an ordinary consumer reads it."""

from __future__ import annotations

from collections.abc import Iterator
import time
from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka.protocol.producer.transaction import InitProducerIdRequest
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import Append, fetch_one, metadata, produce_request
from drkit.wire import Chunk, Record, Transformed, stamp, transform

PATIENCE_SECONDS = 60.0
NOT_READY = (3, 6, 100)
"""Unknown topic or partition, not leader, unknown topic id."""
WIDEST = str((1 << 63) - 1)
PASSIVE = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": WIDEST,
    "message.timestamp.after.max.ms": WIDEST,
    "retention.ms": "-1",
}
"""Settings of a topic that takes copies."""


FORWARD: dict[str, Any] = {"merge_below": 0}
MERGE: dict[str, Any] = {"merge_below": 16 * 1024}
SMALL_PIECES: dict[str, Any] = {"merge_below": 400, "max_batch_bytes": 700, "max_bytes": 3000}
EVERY_WAY = pytest.mark.parametrize(
    "knobs", [FORWARD, MERGE, SMALL_PIECES], ids=["forward", "merge", "split"]
)


class Fetched(NamedTuple):
    """An answer to a read-committed Fetch."""

    records: bytes
    aborted: list[tuple[int, int]]
    end: int
    """Last stable offset."""


class Answer(NamedTuple):
    """An answer to a Produce request."""

    error: int
    base_offset: int
    message: str


class Broker:
    """A single-broker cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._loop = EventLoop()
        self._raw = RawCluster(
            self._loop, ClusterSettings(alias="source", bootstrap_servers=bootstrap), "wire-tests"
        )
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._loop.run(self._raw.connect)

    def create(self, name: str, **config: str) -> Partition:
        """A topic with one partition; dots of the configuration are written as underscores."""
        new = NewTopic(name, 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
        self._admin.create_topics([new])[name].result()
        return Partition(self, name)

    def configure(self, **config: str) -> None:
        """Set properties of the broker while it runs."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        broker = ConfigResource(
            ConfigResource.Type.BROKER, str(self._raw.nodes()[0]), incremental_configs=entries
        )
        for done in self._admin.incremental_alter_configs([broker]).values():
            done.result()

    def delete_before(self, topic: str, offset: int) -> None:
        """Move the start of the log (DeleteRecords)."""
        wanted = TopicPartition(topic, 0, offset)
        self._admin.delete_records([wanted])[TopicPartition(topic, 0)].result()

    def send(self, request: Any) -> Any:
        """Any request, to the one broker."""
        return self._loop.run(self._raw.send, request, self._raw.nodes()[0])

    def topic_id(self, topic: str) -> UUID:
        """Known as soon as the broker itself has heard of the new topic."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert time.monotonic() < deadline, f"{topic} does not appear"
            try:
                found = self._loop.run(metadata, self._raw, [topic])[topic]
            except RawError:  # other files' tests took ten minutes: the broker has ended the idle connection
                continue
            if not found.error and found.leaders.get(0, (-1, 0))[0] >= 0:
                return UUID(str(found.topic_id))

    def fetch(self, topic: tuple[str, UUID], offset: int, max_bytes: int) -> Any:
        """One partition's part of a Fetch answer."""

        async def ask() -> Any:
            return await fetch_one(self._raw, self._raw.nodes()[0], topic, 0, offset, max_bytes=max_bytes)

        return self._loop.run(ask)

    def close(self) -> None:
        self._raw.close()
        self._loop.close()


class Partition:
    """Partition 0 of a topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self._id = broker.topic_id(topic)
        # A broker knows a new topic a moment before it leads its partition.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while broker.fetch((topic, self._id), 0, 1).error_code in NOT_READY:
            assert time.monotonic() < deadline, f"{topic} has no leader"

    def fetch(self, offset: int, max_bytes: int = 1 << 20) -> Fetched:
        """What the broker has from the batch with ``offset`` on."""
        found = self.broker.fetch((self.topic, self._id), offset, max_bytes)
        assert found.error_code == 0, found
        return Fetched(
            bytes(found.records or b""),
            [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()],
            found.last_stable_offset,
        )

    def transformed(self, start: int = 0, max_bytes: int = 1 << 20, **knobs: Any) -> Iterator[Transformed]:
        """Fetch by fetch up to the last stable offset, as the copy task does it."""
        usual: dict[str, Any] = {
            "end": None,
            "skip_producer_ids": frozenset(),
            "merge_below": 0,
            "merge_up_to": 256 * 1024,
            "max_batch_bytes": 1024 * 1024,
            **knobs,
        }
        position, end = start, usual["end"]
        stable = position + 1
        while position < (stable if end is None else min(stable, end)):
            fetched = self.fetch(position, max_bytes)
            stable = fetched.end
            (done,) = transform(fetched.records, position=position, aborted=fetched.aborted, **usual)
            assert done.next_source > position
            position = done.next_source
            yield done

    def append(self, batch: bytes | bytearray) -> Answer:
        """Send a batch as it is."""
        request = produce_request([Append(self.topic, self._id, 0, batch)])
        found = self.broker.send(request).responses[0].partition_responses[0]
        return Answer(found.error_code, found.base_offset, found.error_message or "")

    def append_all(self, chunks: list[Chunk]) -> None:
        """Stamp and send chunks as an idempotent producer; the broker must take each where expected."""
        answer = self.broker.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        sequence = 0
        for chunk in chunks:
            data = stamp(chunk.data, answer.producer_id, answer.producer_epoch, sequence, transactional=False)
            answered = self.append(data)
            assert answered == Answer(0, sequence, ""), (answered, sequence, chunk.how, chunk.runs)
            sequence += chunk.count

    def consume(self, start: int = 0, *, create_times: bool = False) -> list[Record]:
        """What a read-committed consumer gets from ``start`` to the end.

        :param create_times: the times must be those of a producer, not of the broker
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "reads-without-committing",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
                "fetch.wait.max.ms": 20,
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, start)])
        try:
            messages = list(_until_end(consumer))
        finally:
            consumer.close()
        assert not create_times or {each.timestamp()[0] for each in messages} == {TIMESTAMP_CREATE_TIME}
        return [_record(message) for message in messages]


def _until_end(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(20)
        assert message is not None, "no end of the partition in 20 s"
        error = message.error()
        if error is None:
            yield message
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error
        return


def _record(message: Message) -> Record:
    def plain(field: str | bytes | None) -> bytes | None:
        return field.encode() if isinstance(field, str) else field

    named: list[tuple[str, str | bytes | None]] = list(message.headers() or ())  # type: ignore[arg-type]
    headers = tuple((name.encode(), plain(content)) for name, content in named)
    offset = message.offset()
    assert offset is not None
    return Record(offset, message.timestamp()[1], plain(message.key()), plain(message.value()), headers)


def producer(broker: Broker, **config: object) -> Producer:
    return Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "enable.idempotence": True}
        | {key.replace("_", "."): value for key, value in config.items()}
    )
