"""The newest value of every key of small compacted topics, such as another replicator's state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from drkit.clock import monotonic
from drkit.control_key import verify
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.client_config import confluent_config
from drkit.kafka.quiet import QUIET
from drkit.kafka.reading.groupless import is_passed_over
from drkit.kafka.reading.headers import headers_of
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition

_SECONDS: Final = 20.0


class NewestValues(dict[bytes, bytes]):
    """Key → newest value, without deleted keys."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[bytes, str] = {}
        """Keys whose newest record has no valid MAC, and why; the record before it counts."""


def newest_values(
    cluster: Cluster, topics: Iterable[str], seconds: float = _SECONDS, *, verified: bool = False
) -> dict[str, NewestValues]:
    """Read topics from their start to their current end, committed records only, all with one consumer.

    :param verified: of drkit's own topics, where there is a control key: only records with its MAC count
    :returns: topic → key → newest value, without deleted keys; nothing of a topic that does not exist
    :raises NotAuthorized: drkit's principal may not read one of them
    :raises Failed: they could not be read to their ends in time
    """
    found = describe_topics(cluster, topics)
    partitions = [TopicPartition(t.name, p) for t in found.values() for p in t.partitions]
    if not partitions:
        return {}
    ends = list_offsets(cluster, partitions, "latest", committed=True)
    consumer = Consumer(
        {
            **confluent_config(cluster.settings),
            "log_level": 0,
            # Never used as a group: partitions are assigned and offsets never committed.
            "group.id": "drkit-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        },
        logger=QUIET,
    )
    try:
        consumer.assign([ConfluentPartition(topic, p, OFFSET_BEGINNING) for topic, p in partitions])
        return _read(cluster, consumer, ends, monotonic() + seconds, verified=verified)
    except KafkaException as error:
        raise cluster.error(error.args[0], "read topics", ", ".join(found)) from error
    finally:
        consumer.close()


def _read(
    cluster: Cluster, consumer: Consumer, ends: dict[TopicPartition, int], deadline: float, *, verified: bool
) -> dict[str, NewestValues]:
    values = {at.topic: NewestValues() for at in ends}
    unread = set(ends)  # empty ones too: only a read shows whether reading is allowed
    while unread:
        message = consumer.poll(0.1)
        if message is None:
            if monotonic() > deadline:
                left = ", ".join(sorted({at.topic for at in unread}))
                raise Failed("topic_not_read_to_end", where=f"{cluster.alias}: {left}")
            continue
        at = TopicPartition(message.topic() or "", message.partition() or 0)
        error, key, value = message.error(), message.key(), message.value()
        # A partition that is written all the time never reports its end.
        if error is None and (message.offset() or 0) + 1 >= ends[at]:
            unread.discard(at)
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                unread.discard(at)
            elif not is_passed_over(error):
                raise cluster.error(error, "read a topic", at.topic)
        elif isinstance(key, bytes):
            body = value if isinstance(value, bytes) else None
            control = cluster.settings.control
            why = verify(control, at.topic, key, body, headers_of(message)) if verified else ""
            _take(values[at.topic], key, body, why)
    return values


def _take(found: NewestValues, key: bytes, value: bytes | None, why: str) -> None:
    if why:
        found.refused[key] = why
        return
    found.refused.pop(key, None)
    found.pop(key, None)
    if value is not None:
        found[key] = value
