"""Deleting the beginning of partitions (DeleteRecords), asked of their leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafka.protocol.admin import DeleteRecordsRequest

from drkit.kafka import codes
from drkit.kafka.partition_offsets import leader_of
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition

_TIMEOUT_MS: Final = 20_000
_PATIENCE_MS: Final = 5_000
"""How much longer an answer may take than the brokers may."""
_UNKNOWN: Final = -1


class Deleted(NamedTuple):
    """The answer for one partition."""

    error: int
    """Kafka's error code. With one the leader may have deleted the records all the same."""
    start: int
    """First offset that every live replica has left; −1 with an error."""


async def delete_records(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Mapping[TopicPartition, int],
    *,
    timeout_ms: int = _TIMEOUT_MS,
) -> dict[TopicPartition, Deleted]:
    """Delete all records before an offset of each partition. Repeated, it deletes nothing more.

    An answer without error means that every replica on a live broker has done so. It is not durable: brokers
    write the new beginning down every ``log.flush.start.offset.checkpoint.interval.ms``, a minute by default.

    :param topics: metadata of the topics; a partition without a leader gets LEADER_NOT_AVAILABLE
    :param timeout_ms: how long a leader waits for the other replicas
    """
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for at, offset in wanted.items():
        by_node.setdefault(leader_of(topics, at), {})[at] = offset
    out = {at: Deleted(codes.LEADER_NOT_AVAILABLE, _UNKNOWN) for at in by_node.pop(_UNKNOWN, {})}

    async def ask(each: tuple[int, Mapping[TopicPartition, int]]) -> dict[TopicPartition, Deleted]:
        try:
            return await _delete_at(cluster, *each, timeout_ms)
        except RawError:  # this broker alone does not answer
            return {at: Deleted(codes.REQUEST_TIMED_OUT, _UNKNOWN) for at in each[1]}

    for answers in await cluster.loop.together(ask, list(by_node.items())):
        out |= answers
    return out


async def _delete_at(
    cluster: RawCluster, node: int, wanted: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, Deleted]:
    topic_of = DeleteRecordsRequest.DeleteRecordsTopic
    by_topic: dict[str, list[DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition]] = {}
    for (topic, partition), offset in wanted.items():
        by_topic.setdefault(topic, []).append(
            topic_of.DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    request = DeleteRecordsRequest(
        topics=[topic_of(name=t, partitions=p) for t, p in sorted(by_topic.items())], timeout_ms=timeout_ms
    )
    answer = await cluster.send(request, node, timeout_ms=timeout_ms + _PATIENCE_MS)
    return {
        TopicPartition(t.name, p.partition_index): Deleted(p.error_code, p.low_watermark)
        for t in answer.topics
        for p in t.partitions
    }
