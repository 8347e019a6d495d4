"""Reads what lies behind the frontier in a partition of the old primary, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, fetch_one
from drkit.model import TopicPartition
from drkit.wire import Chunk, Record, decode, read_header, transform

_FETCH_BYTES: Final = 4 << 20
_LARGEST_BATCH: Final = 1 << 30
"""Nothing is written, so nothing has to be cut."""
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
        out = transform(
            answer.records or b"", position=position, end=end,
            aborted=[(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()],
            skip_producer_ids=skip, merge_below=0, merge_up_to=0, max_batch_bytes=_LARGEST_BATCH,
        )  # fmt: skip
        for chunk in out.chunks:
            for record in _of_source(chunk):
                records, size = records + 1, size + len(record.key or b"") + len(record.value or b"")
                take(at, record)
        if out.next_source <= position:
            break
        position = out.next_source
    return Passed(records, size, position, error)


def _of_source(chunk: Chunk) -> list[Record]:
    """The records of a chunk with the offsets they have on the source."""
    offsets = [o for run in chunk.runs for o in range(run.source, run.source + run.count)]
    there = decode(read_header(chunk.data), chunk.data)
    return [record._replace(offset=o) for o, record in zip(offsets, there, strict=True)]
