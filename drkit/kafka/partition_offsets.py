"""Where partitions begin and end, asked of all their leaders at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import TopicMetadata, list_offsets
from drkit.model import TopicPartition

_NOBODY: Final = -1


async def listed(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partitions: Iterable[TopicPartition],
    which: int,
) -> dict[TopicPartition, int]:
    """Start or last stable offsets, one request per broker; what has no answer is left out."""
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for at in partitions:
        by_node.setdefault(leader_of(topics, at), {})[at] = which
    asked = [(node, wanted) for node, wanted in by_node.items() if node >= 0]
    out: dict[TopicPartition, int] = {}
    for answers in await cluster.loop.together(lambda each: _list_at(cluster, *each), asked):
        out |= answers
    return out


async def _list_at(
    cluster: RawCluster, node: int, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    try:
        answers = await list_offsets(cluster, node, wanted, committed=True)
    except RawError:  # this broker alone does not answer
        return {}
    return {at: a.offset for at, a in answers.items() if not a.error}


def leader_of(topics: Mapping[str, TopicMetadata], at: TopicPartition) -> int:
    """The id of a partition's leader, −1 without one."""
    leader = topics[at.topic].leaders.get(at.partition)
    return leader.node if leader is not None else _NOBODY
