"""Topics and groups of the source that come and go, as in months of a busy cluster."""

from __future__ import annotations

from collections import deque
import threading
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BASE: Final = "base"
_LIVING_TOPICS: Final = 8
_LIVING_GROUPS: Final = 240
"""Of half a minute: each lives through several rounds."""
_GROUPS_A_TURN: Final = 8
_PARTITIONS: Final = 3
_TURN_SECONDS: Final = 1.0
_TURNS_A_TOPIC: Final = 2


class Churn:
    """Begins a topic or two and some groups each second, and deletes the oldest.

    :param source: bootstrap servers
    """

    def __init__(self, source: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": source, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": source, "log_level": 0})
        self._topics, self._groups = deque[str](), deque[str]()
        self.topics = self.groups = 0
        """How many have come and gone."""
        self._turns, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)

    def start(self) -> None:
        self._create(BASE)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(_TURN_SECONDS):
            self._turns += 1
            try:
                self._turn_groups()
                if self._turns % _TURNS_A_TOPIC == 0:
                    self._turn_topics()
            except KafkaException:
                continue  # a broker that restarts

    def _turn_groups(self) -> None:
        for number in range(_GROUPS_A_TURN):
            name = f"g{self._turns:06d}-{number}"
            topics = [BASE, *list(self._topics)[-1:]]
            at = [TopicPartition(topic, number % _PARTITIONS, 1) for topic in topics]
            wanted = [ConsumerGroupTopicPartitions(name, at)]
            self._admin.alter_consumer_group_offsets(wanted)[name].result(10)
            self._groups.append(name)
        while len(self._groups) > _LIVING_GROUPS:
            name = self._groups.popleft()
            self._admin.delete_consumer_groups([name])[name].result(10)
            self.groups += 1

    def _turn_topics(self) -> None:
        name = f"churn{self._turns:06d}"
        self._create(name)
        self._topics.append(name)
        while len(self._topics) > _LIVING_TOPICS:
            name = self._topics.popleft()
            self._admin.delete_topics([name])[name].result(10)
            self.topics += 1

    def _create(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, _PARTITIONS, 1)])[name].result(10)
        for number in range(5 * _PARTITIONS):
            self._producer.produce(name, b"v", partition=number % _PARTITIONS)
        self._producer.flush(10)
