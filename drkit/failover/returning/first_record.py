"""The first record that a consumer sees in a range of offsets."""

from __future__ import annotations

from typing import Final

from drkit.errors import Failed
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import aborted_in, fetch_one, metadata
from drkit.model import TopicPartition
from drkit.wire import visible

_FETCH_BYTES: Final = 64 * 1024


async def first_record(cluster: RawCluster, at: TopicPartition, span: tuple[int, int]) -> int | None:
    """The offset of the first committed record in a range of a partition; None: it holds none.

    :param span: the range, half open; it begins at or after the log start
    :raises Failed: the partition cannot be read
    :raises RawError: the cluster stopped answering
    """
    offset, end = span
    topic = (await metadata(cluster, [at.topic]))[at.topic]
    while offset < end:
        answer = await fetch_one(
            cluster, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, offset,
            max_bytes=_FETCH_BYTES, max_wait_ms=0,
        )  # fmt: skip
        if answer.error_code:
            raise Failed(
                "partition_unreadable",
                where=f"{at} on {cluster.alias}",
                evidence=f"offset {offset}: {error_name(answer.error_code)}",
                hint="check the cluster, then: drkit reprotect, with --resume where a run is under way",
            )
        found = visible(answer.records or b"", offset, end, aborted=aborted_in(answer))
        if found.chunks:
            return found.chunks[0].runs[0].source
        if found.next_source <= offset:
            return None  # what follows is not committed yet
        offset = found.next_source
    return None
