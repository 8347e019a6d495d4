"""An application that writes all the time by a link of its own, and members that come late."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
import threading
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.support.flows.produce import now_ms

_TICK_SECONDS = 0.05
_FIRST = 40
"""Records of each topic that are there before anything else."""


class Acked(NamedTuple):
    """A record that the primary acknowledged."""

    topic: str
    partition: int
    offset: int
    value: bytes
    at_ms: int


class Application:
    """Writes unique values, and remembers which were acknowledged, and when."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.topics = [*topics]
        self.acked: list[Acked] = []
        self._number = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2,
                "message.timeout.ms": 3000, "socket.timeout.ms": 2000, "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )  # fmt: skip
        for topic in topics:
            for partition in (0, 1) * (_FIRST // 2):
                self._write(topic, partition)
        assert self._producer.flush(30) == 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _write(self, topic: str, partition: int) -> None:
        self._number += 1
        with suppress(BufferError):
            self._producer.produce(
                topic, b"%s %d" % (topic.encode(), self._number), partition=partition, on_delivery=self._heard
            )

    def _run(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            for topic in self.topics:
                self._write(topic, self._number % 2)
            self._producer.poll(0)

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            topic, partition, offset, value = (
                message.topic(), message.partition(), message.offset(), message.value()
            )  # fmt: skip
            assert topic is not None
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            self.acked.append(Acked(topic, partition, offset, value, now_ms()))

    def stop(self) -> None:
        """What was not acknowledged by now never is."""
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(4)

    def of(self, topic: str, partition: int) -> list[Acked]:
        """What was acknowledged of a partition, in the order of its offsets."""
        found = (a for a in self.acked if (a.topic, a.partition) == (topic, partition))
        return sorted(found, key=lambda a: a.offset)


class Member:
    """A member of a group that reads, and never commits."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "session.timeout.ms": 6000, "log_level": 0,
            }
        )  # fmt: skip
        self._consumer.subscribe([topic])
        self.assigned, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(KafkaException):
                self._consumer.consume(10, 0.1)
                if self._consumer.assignment():
                    self.assigned.set()
        self._consumer.close()

    def stop(self) -> None:
        """It leaves its group."""
        self._stop.set()
        self._thread.join(10)
