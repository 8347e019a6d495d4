"""Consumers that stay where they are: their cluster died, came back, and is to be a standby."""

from __future__ import annotations

import threading
from typing import Any, Self

from confluent_kafka import Consumer, ShareConsumer

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config

_POLL_SECONDS = 0.1


class Staying:
    """A consumer that subscribes to a topic and reads from a thread until it is left; it commits nothing.

    :param group: also its client id
    :param more: Kafka's names with underscores
    :param share: a share group (KIP-932)
    """

    def __init__(
        self, cluster: ClusterSettings, group: str, topic: str, *, share: bool = False, **more: Any
    ) -> None:
        own = {"group.id": group, "client.id": group, "log_level": 0}
        own |= {name.replace("_", "."): value for name, value in more.items()}
        self._fields = confluent_config(cluster) | own
        if not share:
            self._fields |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._topic, self._share, self._stop = topic, share, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        consumer: Any = (ShareConsumer if self._share else Consumer)(self._fields)
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            consumer.poll(timeout=_POLL_SECONDS)
        consumer.close()
