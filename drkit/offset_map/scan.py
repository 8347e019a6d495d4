"""Headers of the target's log, where numbers do not settle the map."""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import EARLIEST, aborted_in, fetch_one, list_offsets
from drkit.model import TopicPartition
from drkit.offsets.resolution import LogBatch
from drkit.wire import BatchHeader, split
from drkit.wire.aborted import AbortedTransactions

_FIRST_BYTES: Final = 64 << 10
_MOST_BYTES: Final = 8 << 20
_WIDER: Final = 4
"""Most ranges are a few markers; what is fetched behind their end is of no use."""


async def scan(
    cluster: RawCluster,
    node: int,
    partition: TopicPartition,
    topic_id: UUID,
    start: int,
    end: int,
    *,
    first_visible: bool = False,
) -> list[LogBatch]:
    """Headers of the target's batches in [start, end), with what was aborted marked.

    :param first_visible: stop after the first batch with records that a consumer sees
    :raises RawError: the leader stopped answering
    """
    fetch = partial(fetch_one, cluster, node, (partition.topic, topic_id), partition.partition)
    out: list[LogBatch] = []
    position, size = start, _FIRST_BYTES
    while position < end:
        answer = await fetch(position, committed=False, max_bytes=size)
        if answer.error_code == codes.OFFSET_OUT_OF_RANGE:
            earliest = await list_offsets(cluster, node, {partition: EARLIEST}, committed=False)
            if earliest[partition].offset > position:
                position = earliest[partition].offset  # the target's own retention took what was there
                continue
        if answer.error_code:
            raise RawError(f"scan of {partition} failed with Kafka error code {answer.error_code}")
        batches = list(split(answer.records or b""))
        # Which transactions were aborted is in an answer of its own, as long as this one.
        undecided = any(h.is_transactional and not h.is_control for h, _ in batches)
        ranges = aborted_in(await fetch(position, max_bytes=size)) if undecided else []
        aborted, before = AbortedTransactions(ranges), position
        for header, batch in batches:
            aborted.advance(header.last_offset)
            if header.is_control:
                aborted.end(header, batch)
            if header.next_offset <= position or header.base_offset >= end:
                continue
            gone = aborted.hides(header)
            out.append(_log_batch(header, gone=gone))
            position = header.next_offset
            if first_visible and not header.is_control and not gone:
                return out
        if position == before:
            # Half of the log would be taken for all of it.
            raise RawError(f"{partition} gave no records at {position}, before its end {end}")
        size = min(size * _WIDER, _MOST_BYTES)
    return out


def _log_batch(header: BatchHeader, *, gone: bool) -> LogBatch:
    return LogBatch(
        base=header.base_offset,
        records=header.last_offset_delta + 1,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        aborted=gone,
    )
