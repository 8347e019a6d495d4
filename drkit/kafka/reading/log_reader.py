"""Reading partitions from an offset to their ends with an ordinary consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import gc
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConfluentPartition

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.control_key import Headers
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import QUIET, confluent_config
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition

_SILENT_SECONDS: Final = 30.0
_BATCH: Final = 5000


def read_partitions(
    cluster: ClusterSettings,
    starts: Mapping[TopicPartition, int],
    take: Callable[[Message], bool | None],
    *,
    committed: bool = True,
) -> None:
    """Hand every record from the starts on to `take`, which ends a partition's reading by True.

    Without that a partition is read to its end at the time when the reading begins: a partition that is
    written all the time has no other end.

    :param committed: records of open and aborted transactions are left out
    :raises Failed: a partition cannot be read
    """
    if not starts:
        return
    found = list_offsets(Cluster.connect(cluster), starts, "latest", committed=committed)
    ends = {at: end for at, end in found.items() if end != starts[at]}
    if not ends:
        return  # nothing has come since it was read to this end
    consumer = Consumer(
        {
            **confluent_config(cluster),
            "group.id": "drkit-takeover",  # never used as a group
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # retention may remove the start while reading begins
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        },
        logger=QUIET,
    )
    try:
        consumer.assign([ConfluentPartition(p.topic, p.partition, starts[p]) for p in ends])
        _drain(consumer, cluster.alias, ends, take)
    except KafkaException as error:
        raise Failed(
            "records_unreadable",
            where=f"{', '.join(sorted({p.topic for p in starts}))} on {cluster.alias}",
            evidence=error.args[0].str(),
            hint="see what drkit may do there: drkit config check --connect",
        ) from error
    finally:
        consumer.close()


def is_passed_over(error: KafkaError) -> bool:
    """Return whether a consumer without a group continues after this error.

    librdkafka needs a group's name and looks for its coordinator, which drkit does not use. If an authorizer
    does not allow that group, its refusal arrives between the records.
    """
    return bool(error.retriable()) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def _drain(
    consumer: Consumer, alias: str, ends: dict[TopicPartition, int], take: Callable[[Message], bool | None]
) -> None:
    """Read on until every partition's end is met; takes it out of `ends` then."""
    heard = monotonic()
    while ends:
        first = consumer.poll(0.1)
        # A batch is not waited for until it is full.
        messages = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
        if not messages and monotonic() - heard > _SILENT_SECONDS:
            where = ", ".join(map(str, sorted(ends)[:3]))
            raise Failed(
                "records_unreadable",
                where=f"{where} on {alias}",
                evidence=f"nothing arrived for {_SILENT_SECONDS:.0f} s",
                hint="see whether the partitions have leaders, then try again",
            )
        for message in messages:
            heard = monotonic()
            at = TopicPartition(message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                if at in ends and (take(message) or (message.offset() or 0) + 1 >= ends[at]):
                    del ends[at]
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                ends.pop(at, None)
            elif not is_passed_over(error):
                raise KafkaException(error)


NOT_TEXT: Final = "\0"
"""Replaces a name that is not UTF-8. No other name is equal: librdkafka ends names at a zero byte."""
_CALL: Final = methodcaller("headers")
"""A call from C: its result is always checked."""


def headers_of(message: Message) -> Headers:
    """The headers of a record of drkit's own topics; empty if a name is not UTF-8.

    drkit writes no such names: a record with one comes from elsewhere, and must not end its reader.
    """
    found = all_headers(message)
    return () if any(name == NOT_TEXT for name, _ in found) else found


def all_headers(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of any record; a name that is not UTF-8 is :data:`NOT_TEXT`."""
    return [_readable(header) for header in _kept(message)]


def _kept(message: Message) -> list[Any]:
    for _ in range(2):  # the first call raises for a name that is not UTF-8; the second returns the list
        try:
            return _CALL(message) or []
        except (SystemError, UnicodeDecodeError):
            continue
    return []


def _readable(header: tuple[Any, Any]) -> tuple[str, bytes | None]:
    items = gc.get_referents(header)  # leaves out a null pointer
    return header if len(items) == len(header) else (NOT_TEXT, items[0])
