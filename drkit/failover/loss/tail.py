"""Reads the records after the frontier of a partition on the old primary, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch, Record, records_in, visible

_FETCH_BYTES: Final = 4 << 20
Take = Callable[[TopicPartition, Record], None]
"""Receives each record, with its offset on the source."""


class Passed(NamedTuple):
    """The result of a read."""

    records: int
    bytes: int
    """Size of keys and values."""
    next_offset: int
    """The first offset that was not read."""
    stopped: str = ""
    """Why it ended before the end of the range; empty: it did not."""


async def read_tail(
    source: RawCluster,
    topic: TopicMetadata,
    at: TopicPartition,
    span: tuple[int, int],
    skip: frozenset[int],
    take: Take,
) -> Passed:
    """Pass every record of an offset range to `take`, as a read_committed consumer sees them.

    :param skip: producers whose records are skipped: records that drkit itself copied there
    :raises RawError: the source stopped answering
    """
    position, end = span
    records = size = 0
    while position < end:
        answer = await fetch_one(
            source, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, position,
            max_bytes=_FETCH_BYTES, max_wait_ms=0,
        )  # fmt: skip
        if answer.error_code:
            return Passed(records, size, position, error_name(answer.error_code))
        try:
            out = visible(answer.records or b"", position, end, aborted=aborted_in(answer), without=skip)
            found = [record for chunk in out.chunks for record in records_in(chunk)]
        except CorruptBatch as error:
            return Passed(records, size, position, error.what)
        for record in found:
            records, size = records + 1, size + len(record.key or b"") + len(record.value or b"")
            take(at, record)
        if out.next_source <= position:
            return Passed(records, size, position, "nothing follows")
        position = out.next_source
    return Passed(records, size, position)
