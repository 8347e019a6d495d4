"""Reads what lies behind the frontier in a partition of the old primary, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one
from drkit.model import TopicPartition
from drkit.wire import Record, records_in, visible

_FETCH_BYTES: Final = 4 << 20
Take = Callable[[TopicPartition, Record], None]
"""Gets each record, with its offset on the source."""


class Passed(NamedTuple):
    """What was read."""

    records: int
    bytes: int
    """Of keys and values."""
    next_offset: int
    """The first offset that was not looked at."""
    error: int
    """Kafka's code that ended the reading; 0: none."""


async def read_tail(
    source: RawCluster,
    topic: TopicMetadata,
    at: TopicPartition,
    span: tuple[int, int],
    skip: frozenset[int],
    take: Take,
) -> Passed:
    """Hand every record of a span of offsets to `take`, as a consumer with read_committed sees them.

    :param skip: producers whose records are left out: what drkit itself copied there
    :raises RawError: the source stopped answering
    :raises CorruptBatch: a batch cannot be read
    """
    position, end = span
    records = size = error = 0
    while position < end:
        answer = await fetch_one(
            source, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, position,
            max_bytes=_FETCH_BYTES, max_wait_ms=0,
        )  # fmt: skip
        if error := answer.error_code:
            break
        out = visible(answer.records or b"", position, end, aborted=aborted_in(answer), without=skip)
        for chunk in out.chunks:
            for record in records_in(chunk):
                records, size = records + 1, size + len(record.key or b"") + len(record.value or b"")
                take(at, record)
        if out.next_source <= position:
            break
        position = out.next_source
    return Passed(records, size, position, error)
