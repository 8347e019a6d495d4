"""An application's producer on a cluster with an authorizer, and who proves fences there."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster
from tests.support.topic_sync.acl_world import connect
from tests.support.waiting import eventually

CANARY = {"sasl.username": "app", "sasl.password": "app-password"}
"""The application itself."""
READER = {"sasl.username": "drkit", "sasl.password": "drkit-password"}
"""A principal that may not write."""


class App:
    """An application's producer that lives across a fence, and its reader."""

    def __init__(self, settings: ClusterSettings, topic: str) -> None:
        self._config, self._topic = {**confluent_config(settings), "log_level": 0}, topic
        self._out = Producer({**self._config, "topic.metadata.refresh.interval.ms": 500})

    def write(self) -> int:
        """The code that one record is answered with, 0 for fine."""
        heard: list[KafkaError | None] = []
        try:
            self._out.produce(
                self._topic, b"x", partition=0, on_delivery=lambda error, _: heard.append(error)
            )
        except KafkaException as refused:  # known from the last answer, until the next look
            return int(refused.args[0].code())
        self._out.flush(15)
        return heard[0].code() if heard[0] is not None else 0

    def read(self) -> None:
        """Read the first record; the group needs no permission, since it is not used."""
        consumer = Consumer({**self._config, "group.id": "app", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        try:
            eventually(lambda: any(m.error() is None for m in consumer.consume(10, 0.1)), 15, "a record")
        finally:
            consumer.close()


def as_app(cluster: LocalCluster, topic: str) -> App:
    return App(connect(cluster, "x", "app").settings, topic)
