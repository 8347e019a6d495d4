"""The clients that read and write the topic of a flow's state."""

from __future__ import annotations

from typing import Final

from drkit.config import ClusterSettings
from drkit.kafka.client_config import confluent_config
from drkit.kafka.clients import Consumer, Producer
from drkit.kafka.quiet import QUIET

_LARGEST_BYTES: Final = 16 << 20


def state_consumer(target: ClusterSettings, source: str) -> Consumer:
    """A consumer without partitions."""
    return Consumer(
        {
            **confluent_config(target),
            "log_level": 0,
            # Never used as a group: partitions are assigned and offsets never committed.
            "group.id": f"drkit-{source}-state",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        },
        logger=QUIET,
    )


def state_producer(target: ClusterSettings) -> Producer:
    """An idempotent producer that sends at once."""
    return Producer(
        {
            **confluent_config(target),
            "log_level": 0,
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": 30_000,
            "allow.auto.create.topics": False,  # a deleted topic must not come back as another one
            # The note of the source's ends grows with the partitions. Brokers limit the compressed size.
            "compression.type": "zstd",
            "message.max.bytes": _LARGEST_BYTES,
        },
        logger=QUIET,
    )
