"""Settings of topics as brokers describe them."""

from __future__ import annotations

from typing import NamedTuple

TOPIC, BROKER, CLUSTER, FILE, DEFAULT = (
    "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG",
)  # fmt: skip


class Value(NamedTuple):
    value: str | None
    source: str = TOPIC

    @property
    def is_set_on_topic(self) -> bool:
        return self.source == TOPIC
