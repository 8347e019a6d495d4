"""Where the leader epochs of a partition's log end (KIP-101)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest

from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, leader_of
from drkit.model import TopicPartition

_CONSUMER: Final = -1
_ANY_EPOCH: Final = -1


class EpochEnd(NamedTuple):
    """The answer for one partition; both are −1 where the log has never heard of the epoch."""

    epoch: int
    """The epoch asked for, or the last one before it."""
    end: int
    """First offset of a later epoch, or the log's end."""


async def epoch_ends(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """Where leader epochs end, one request per broker; what has no answer is left out.

    :param wanted: partition → leader epoch
    :raises RawError: a broker does not answer
    """
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for at, epoch in wanted.items():
        by_node.setdefault(leader_of(topics, at), {})[at] = epoch
    asked = [(node, some) for node, some in by_node.items() if node >= 0]
    out: dict[TopicPartition, EpochEnd] = {}
    for found in await cluster.loop.together(lambda each: _ask(cluster, *each), asked):
        out |= found
    return out


async def _ask(
    cluster: RawCluster, node: int, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    topic_of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), epoch in wanted.items():
        by_topic.setdefault(topic, []).append(
            topic_of.OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=_ANY_EPOCH, leader_epoch=epoch
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[topic_of(topic=t, partitions=p) for t, p in by_topic.items()]
    )
    answer = await cluster.send(request, node)
    return {
        TopicPartition(topic.topic, p.partition): EpochEnd(p.leader_epoch, p.end_offset)
        for topic in answer.topics
        for p in topic.partitions
        if not p.error_code
    }
