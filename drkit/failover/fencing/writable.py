"""Checks whether producers can write to a partition, with a batch that a healthy leader refuses last.

The batch header counts one record more than the batch has. The broker checks permission, leader, in-sync
replicas and size (UnifiedLog) before the batch's count (LogValidator), so the error "invalid record" shows
that all of them are fine. The count comes before each record's key and timestamp: the answer is the same in a
compacted topic, and in one with limits on timestamps. Nothing is appended.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from drkit.clock import wall_ms
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import ALL, Append, metadata, produced
from drkit.model import TopicPartition
from drkit.wire import Record, encode, stamp

WRITABLE: Final = codes.INVALID_RECORD
_COUNT_AT: Final = 57
"""Byte offset of the record count in a batch's header."""
_UNCOMPRESSED: Final = 0
_TIMEOUT_MS: Final = 10_000
_AGAIN: Final = codes.LEADER_MOVES | {-1}
"""Codes after which a partition is asked again: a leader change, or no answer."""


async def write_codes(
    cluster: RawCluster, topics: Iterable[str], acks: int = ALL
) -> dict[TopicPartition, int]:
    """Return the error code of each partition's leader for the batch; −1: no answer.

    :param acks: with 1 too few replicas in sync are no error, as for a producer that does not wait for them
    """
    out: dict[TopicPartition, int] = {}
    wanted = sorted(topics)
    for _ in range(2):
        found = await metadata(cluster, wanted)
        by_node: dict[int, list[Append]] = {}
        for name, topic in found.items():
            for number, leader in topic.leaders.items():
                if out.get(TopicPartition(name, number), -1) in _AGAIN:
                    append = Append(name, topic.topic_id, number, _impossible())
                    by_node.setdefault(leader.node, []).append(append)
        for codes_of_node in await cluster.loop.together(partial(_ask, cluster, acks), by_node.items()):
            out |= codes_of_node
        if not any(code in _AGAIN for code in out.values()):
            break
    return out


async def _ask(cluster: RawCluster, acks: int, asked: tuple[int, list[Append]]) -> dict[TopicPartition, int]:
    """The codes of one leader's partitions, in one request."""
    node, appends = asked
    silent = {TopicPartition(a.topic, a.partition): -1 for a in appends}
    if node < 0:
        return silent
    try:
        return silent | await produced(cluster, node, appends, timeout_ms=_TIMEOUT_MS, acks=acks)
    except RawError:
        return silent


def _impossible() -> bytearray:
    batch = encode([Record(0, wall_ms(), b"canary", b"canary")], _UNCOMPRESSED)
    batch[_COUNT_AT : _COUNT_AT + 4] = (2).to_bytes(4, "big")
    return stamp(batch, -1, -1, -1, transactional=False)


def code_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return "no answer" if code == -1 else codes.error_name(code)
