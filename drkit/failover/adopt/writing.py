"""Writes the records that `drkit control adopt` signs, in one transaction if the topic's reader allows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from drkit.config import FlowSettings
from drkit.control_key import ControlKeys, Signatures
from drkit.errors import Failed, Refused
from drkit.failover.adopt.records import TopicKind, TopicRecords
from drkit.failover.adopt.refusals import refuse_change
from drkit.flow_state.names import adopting_transactional_id
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import QUIET, KafkaError, KafkaException, Message, Producer, confluent_config

_SECONDS: Final = 120.0
Written = tuple[int, bytes | None, bytes | None]
"""Partition, key and value of a record to sign."""


@dataclass
class Delivered:
    """The delivery results of the brokers."""

    failed: list[KafkaError] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    """Partition → offset of the first record."""

    def take(self, error: KafkaError | None, message: Message) -> None:
        """Add the result of one record."""
        if error is not None:
            self.failed.append(error)
        else:
            self.first.setdefault(message.partition() or 0, message.offset() or 0)


def write(
    topic: TopicRecords, cluster: Cluster, flow: FlowSettings, keys: ControlKeys, records: Iterable[Written]
) -> None:
    """Sign and write records in order.

    :raises Refused: another process wrote to the topic after it was read
    :raises Failed: the records were not accepted
    """
    config: dict[str, str | int | bool] = {
        **confluent_config(cluster.settings),
        "enable.idempotence": True,
        "allow.auto.create.topics": False,
        "log_level": 0,
    }
    if is_whole := topic.kind is not TopicKind.JOURNAL:
        config["transactional.id"] = adopting_transactional_id(flow.source, flow.target)
        config["transaction.timeout.ms"] = int(_SECONDS * 1000)
    producer, told = Producer(config, logger=QUIET), Delivered()
    newest = max((r.order for r in topic.records), default=0)
    signatures = Signatures(keys, topic.name, lambda: cluster.cluster_id, newest=newest)
    try:
        if is_whole:
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
        for partition, key, value in records:
            headers = signatures.text_headers(key, value)
            _produce(
                producer=producer,
                told=told,
                name=topic.name,
                value=value,
                key=key,
                partition=partition,
                headers=headers,
            )
        if producer.flush(_SECONDS):
            told.failed.append(KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001  the constant's only name
        if is_whole and not told.failed:
            _refuse_between(topic, told, producer)
            producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        told.failed.append(error.args[0])
    if told.failed:
        raise Failed("signing_failed", where=f"{topic.name} on {topic.where}", evidence=told.failed[0].str())


def _refuse_between(topic: TopicRecords, told: Delivered, producer: Producer) -> None:
    """Refuse if another process wrote to the topic after the read, except for notes.

    :raises Refused: another process wrote; the transaction is aborted
    """
    if topic.kind is TopicKind.NOTES:
        return
    try:
        refuse_change(topic, topic.ends | told.first)
    except Refused:
        producer.abort_transaction(_SECONDS)
        raise


def _produce(
    producer: Producer, told: Delivered, name: str, value: bytes | None, key: bytes | None, partition: int,
    headers: dict[str, str | bytes | None] | None,
) -> None:  # fmt: skip
    while True:
        try:
            producer.produce(name, value, key, partition=partition, headers=headers, on_delivery=told.take)
        except BufferError:
            producer.poll(0.1)
        else:
            return
