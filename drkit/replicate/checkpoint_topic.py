"""The topic ``<source>.checkpoints.internal`` on the target, as MirrorMaker 2 has it (KIP-382)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.client_config import confluent_config
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.offsets.mm2_records import Checkpoint
from drkit.replicate.state_topic import QUIET

_REPLICAS: Final = 3
_SECONDS: Final = 20.0


def ensure_checkpoint_topic(target: Cluster, name: str) -> None:
    """Create the topic where it is missing: one partition, compacted.

    :raises DrkitError: it cannot be created
    """
    plan = TopicPlan(name, 1, min(_REPLICAS, len(target.brokers)), {"cleanup.policy": "compact"})
    for error in create_topics(target, [plan]).values():
        raise error


class CheckpointTopic:
    """Writes checkpoints, durably."""

    def __init__(self, target: ClusterSettings, name: str) -> None:
        self.name, self._alias = name, target.alias
        self._producer = Producer(
            {
                **confluent_config(target),
                "log_level": 0,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(_SECONDS * 1000),
            },
            logger=QUIET,
        )

    def write(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Write some checkpoints and wait until all are acknowledged.

        :raises Failed: one was not
        """
        failed: list[KafkaError] = []

        def heard(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failed.append(error)

        for checkpoint in checkpoints:
            while True:
                try:
                    self._producer.produce(
                        self.name, checkpoint.value, checkpoint.key, partition=0, on_delivery=heard
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        left = self._producer.flush(_SECONDS)
        if failed or left:
            raise Failed(
                "checkpoints cannot be written",
                where=f"{self.name} on {self._alias}",
                evidence=str(failed[0]) if failed else f"no answer in {_SECONDS:.0f} s",
                hint="check in-sync replicas of the target and drkit's permission to write there",
            )

    def close(self) -> None:
        """Forget what is still on its way."""
        self._producer.purge()
