"""The first records of a bubble, which are hard on purpose: old, large, without a key, of every codec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from drkit.chaos.history import PRIMARY, Acked, Recorder
from drkit.clock import wall_ms
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError, Message, Producer
from drkit.kafka.topics import TopicPlan, create_topics

PARTITIONS: Final = 2
_DAY_MS: Final = "86400000"
_THREE_YEARS_MS: Final = 3 * 365 * 86_400_000
_LARGE: Final = 900_000
"""Bytes of the largest record; Kafka's default limit is a megabyte."""
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
_SEND_SECONDS: Final = 30.0


def create_seeded(
    source: Cluster, topics: Sequence[str], properties: Mapping[str, Any], recorder: Recorder
) -> None:
    """Create topics, the last one compacted, and write the first records to the first and the last.

    :param properties: of the producer
    :raises DrkitError: a topic or a record is refused
    """
    *plain, ledger = topics
    plans = [TopicPlan(topic, PARTITIONS, configs={"retention.ms": _DAY_MS}) for topic in plain]
    # Retention by time would delete the old records at once.
    plans.append(TopicPlan(ledger, PARTITIONS, configs={"cleanup.policy": "compact"}))
    for failure in create_topics(source, plans).values():
        raise failure
    for number, codec in enumerate(_CODECS):
        producer = Producer({**properties, "log_level": 0, "compression.type": codec})
        filler = "x" * _LARGE if number == 0 else ""
        errors = _seed(producer, (plain[0], ledger), f"seed {codec}", filler, recorder)
        refused = next((error for error in errors if error is not None), None)
        if refused is not None or not errors:
            evidence = str(refused) if refused is not None else "no answer"
            raise Failed("drill_records_refused", where=source.settings.alias, evidence=evidence)


def _seed(
    producer: Producer, topics: tuple[str, str], name: str, filler: str, recorder: Recorder
) -> list[KafkaError | None]:
    """Write records of one codec, and return the answers."""
    answers: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message | None) -> None:
        answers.append(error)
        if error is None and message is not None:
            place = message.topic() or "", message.partition() or 0, message.offset() or 0
            recorder.record(Acked(PRIMARY, *place, (message.value() or b"").decode()))

    first, ledger = topics
    old = wall_ms() - _THREE_YEARS_MS
    for each in range(5):
        value, partition = f"{name} {each}", each % PARTITIONS
        producer.produce(
            ledger, value, value, partition=partition, timestamp=old + each, on_delivery=delivered
        )
    producer.produce(first, f"{name} {filler}", partition=0, on_delivery=delivered)
    producer.flush(_SEND_SECONDS)
    return answers
