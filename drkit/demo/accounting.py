"""An application in a consumer group: it reads payments, commits offsets, and continues elsewhere."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from drkit.clock import monotonic
from drkit.demo.shop import PAYMENTS
from drkit.errors import Failed

GROUP: Final = "accounting"
_POLL_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 10.0

Payments = dict[int, list[tuple[bytes | None, bytes | None]]]
"""Keys and values by partition, in the order of the log."""


class Accounting:
    """A member of the group, while the context lasts; the group's offsets outlive it."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, count: int) -> Payments:
        """Read the next payments and commit them. Raises Failed if they do not arrive."""
        self._consumer.subscribe([PAYMENTS])
        found: Payments = defaultdict(list)
        seen, deadline = 0, monotonic() + _PATIENCE_SECONDS
        while seen < count:
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None and monotonic() > deadline:
                raise Failed("demo_payments_missing", evidence=f"{seen} of {count} came")
            if message is not None and message.error() is None:
                found[message.partition() or 0].append((message.key(), message.value()))
                seen += 1
        if seen:
            self._consumer.commit(asynchronous=False)
        return dict(found)

    def more(self, seconds: float) -> bool:
        """Whether yet another payment comes within some seconds."""
        message = self._consumer.poll(seconds)
        return message is not None and message.error() is None

    def positions(self, partitions: int) -> dict[int, int]:
        """What the group has committed here; empty while this cluster does not know of it."""
        asked = [TopicPartition(PAYMENTS, p) for p in range(partitions)]
        try:
            answer = self._consumer.committed(asked, _ANSWER_SECONDS)
        except KafkaException:  # the topic, or the group's coordinator, is only coming into being
            return {}
        return {a.partition: a.offset for a in answer if a.error is None and a.offset >= 0}
