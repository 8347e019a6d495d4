"""Reads batch headers of the target's log, for maps that offsets and sequence numbers do not settle."""

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
"""Most ranges are a few markers; fetching more than the range is wasted."""


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
    """Return the headers of the target's batches in [start, end), with aborted ones marked.

    :param first_visible: stop after the first batch with records that a consumer sees
    :raises RawError: the leader stopped answering
    """
    fetch = partial(fetch_one, cluster, node, (partition.topic, topic_id), partition.partition)
    log_batches: list[LogBatch] = []
    position, size = start, _FIRST_BYTES
    while position < end:
        response = await fetch(position, committed=False, max_bytes=size)
        if response.error_code == codes.OFFSET_OUT_OF_RANGE:
            earliest = await list_offsets(cluster, node, {partition: EARLIEST}, committed=False)
            if earliest[partition].offset > position:
                position = earliest[partition].offset  # deleted by the target's retention
                continue
        if response.error_code:
            raise RawError(f"scan of {partition} failed with Kafka error code {response.error_code}")
        batches = list(split(response.records or b""))
        # Only a read_committed fetch, as large as this one, lists the aborted transactions.
        undecided = any(h.is_transactional and not h.is_control for h, _ in batches)
        ranges = aborted_in(await fetch(position, max_bytes=size)) if undecided else []
        aborted, old_position = AbortedTransactions(ranges), position
        for header, batch in batches:
            aborted.advance(header.last_offset)
            if header.is_control:
                aborted.end(header, batch)
            if header.next_offset <= position or header.base_offset >= end:
                continue
            is_aborted = aborted.hides(header)
            log_batches.append(_log_batch(header, is_aborted=is_aborted))
            position = header.next_offset
            if first_visible and not header.is_control and not is_aborted:
                return log_batches
        if position == old_position:
            # A partial result would look like the complete log.
            raise RawError(f"{partition} gave no records at {position}, before its end {end}")
        size = min(size * _WIDER, _MOST_BYTES)
    return log_batches


def _log_batch(header: BatchHeader, *, is_aborted: bool) -> LogBatch:
    return LogBatch(
        base=header.base_offset,
        records=header.last_offset_delta + 1,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        aborted=is_aborted,
    )
