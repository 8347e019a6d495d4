"""Topics of the benchmark: created on the source, wiped between two runs, counted on the target."""

from __future__ import annotations

from concurrent.futures import Future
import time
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from tests.bench.scenarios import PARTITIONS
from tests.bench.waiting import until
from tests.support.flows.compare import NOT_YET

TOPIC_CONFIG: Final = {"retention.ms": "-1", "max.message.bytes": "2097152"}
"""No retention, or the three-year-old records would be deleted under the benchmark."""

WAIT_SECONDS: Final = 30.0


class Topics:
    """Topic administration of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, name: str, partitions: int = PARTITIONS, replicas: int = 1) -> None:
        """Create a benchmark topic and wait until it has leaders."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=TOPIC_CONFIG)
        _settle(self._admin.create_topics([topic]))
        self._wait_until(present=True, names={name})

    def wipe(self, keep: set[str]) -> None:
        """Delete every topic but Kafka's own (``__``) and those to keep; return when they are gone."""
        names = {name for name in self._names() if not name.startswith("__")} - keep
        if names:
            _settle(self._admin.delete_topics(list(names), operation_timeout=WAIT_SECONDS))
            self._wait_until(present=False, names=names)

    def _names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WAIT_SECONDS).topics)

    def _wait_until(self, *, present: bool, names: set[str]) -> None:
        what = f"topics {sorted(names)} {'present' if present else 'gone'}"
        until(lambda: all((name in self._names()) == present for name in names), WAIT_SECONDS, what)


class EndOffsets:
    """Sums of a topic's end offsets, at about one millisecond of CPU per look."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic
        self._ready = False
        self._latest = {
            TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)
        }

    def appended(self) -> int:
        """Offsets handed out so far, open transactions included; 0 while the topic does not exist."""
        # librdkafka waits up to its timeout for the leaders of a topic that is being created: look first.
        self._ready = self._ready or self._has_leaders()
        return self._sum(IsolationLevel.READ_UNCOMMITTED) if self._ready else 0

    def visible(self) -> int:
        """Offsets below the last stable offset: what a read-committed consumer may read."""
        return self._sum(IsolationLevel.READ_COMMITTED)

    def _has_leaders(self) -> bool:
        topic = self._admin.list_topics(timeout=WAIT_SECONDS).topics.get(self._topic)
        if topic is None or len(topic.partitions) < PARTITIONS:
            return False
        return all(p.leader >= 0 for p in topic.partitions.values())

    def _sum(self, isolation: IsolationLevel) -> int:
        answers = self._admin.list_offsets(self._latest, isolation_level=isolation, request_timeout=10.0)
        try:
            return sum(max(0, future.result().offset) for future in answers.values())
        except KafkaException as error:
            if error.args[0].code() in NOT_YET:
                return 0
            raise


def count_records(bootstrap: str, topic: str) -> int:
    """Read a whole topic as a read-committed consumer and count its records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,  # brokers come and go here, the tables say what failed
            "group.id": "bench-count",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 131_072,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        return _drain(consumer)
    finally:
        consumer.close()


def _drain(consumer: Consumer) -> int:
    records, open_partitions = 0, set(range(PARTITIONS))
    deadline = time.monotonic() + 120.0
    while open_partitions and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                records += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise KafkaException(error)
    return records


def _settle(futures: dict[str, Future[Any]]) -> None:
    for future in futures.values():
        future.result(WAIT_SECONDS)
