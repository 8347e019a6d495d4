"""MirrorMaker 2's own topics as drkit keeps them: one partition, compacted, every record acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

from drkit import observe
from drkit.config import ClusterSettings
from drkit.errors import Failed, raise_first
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Producer, deliver, own_producer
from drkit.kafka.topics import BROKER_DEFAULT, TopicPlan, appeared, create_topics, describe_topics

_SECONDS: Final = 20.0
_SEGMENT_BYTES: Final = str(64 << 20)
"""Compaction leaves the active segment as it is, and each reader of such a topic reads all of it."""
_UNKNOWN_TOPIC_MS: Final = 5000
"""How long a topic may be missing before records to it fail: a new one takes a moment to be known."""


class Mm2Record(Protocol):
    """A record that provides its key and value as bytes."""

    @property
    def key(self) -> bytes:
        """Key of the record."""

    @property
    def value(self) -> bytes:
        """Value of the record."""


def ensure_mm2_topic(cluster: Cluster, name: str, replicas: int) -> UUID:
    """Create the topic where it is missing, and return its id.

    :param replicas: as many as there are brokers where these are fewer; −1: the brokers' default
    :raises DrkitError: it cannot be created
    """
    found = describe_topics(cluster, [name]).get(name)
    if found is not None:
        return found.topic_id
    factor = replicas if replicas == BROKER_DEFAULT else min(replicas, len(cluster.brokers))
    plan = TopicPlan(name, 1, factor, {"cleanup.policy": "compact", "segment.bytes": _SEGMENT_BYTES})
    raise_first(create_topics(cluster, [plan]))
    return appeared(cluster, name).topic_id


def tell_remade(flow: str, cluster: Cluster, name: str, before: UUID | None, now: UUID) -> bool:
    """Report a topic that was deleted and created again, if it was."""
    if before in {None, now}:
        return False
    observe.event(
        "internal_topic_remade", level="warning", flow=flow, topic=name, cluster=cluster.alias,
        old_id=str(before), new_id=str(now),
        reason="it was deleted; drkit writes its content again",
    )  # fmt: skip
    return True


class Mm2Topic:
    """Writes records of one of these topics, durably.

    :param what: the records in words, for the error
    """

    def __init__(self, cluster: ClusterSettings, name: str, what: str) -> None:
        self.name, self._cluster, self._what = name, cluster, what
        self._producer = self._open()

    def _open(self) -> Producer:
        # A topic that was deleted must not come back by accident, without compaction.
        config = {
            "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": int(_SECONDS * 1000),
            "topic.metadata.propagation.max.ms": _UNKNOWN_TOPIC_MS,
        }  # fmt: skip
        return own_producer(self._cluster, config)

    def write(self, records: Iterable[Mm2Record]) -> None:
        """Write some records in their order and wait until all are acknowledged.

        :raises Failed: one was not
        """
        delivery = deliver(
            self._producer, self.name, ((0, each.key, each.value, None) for each in records), _SECONDS
        )
        if delivery.failed:
            # A client that found the topic missing keeps reporting it as missing after it is back.
            self._producer.purge()
            self._producer = self._open()
            where = f"{self.name} on {self._cluster.alias}"
            raise Failed("mm2_topic_not_writable", where=where, evidence=delivery.evidence, what=self._what)

    def close(self) -> None:
        """Drop records still in flight."""
        self._producer.purge()
