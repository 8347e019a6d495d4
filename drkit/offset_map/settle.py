"""Settles partitions: the leaders first, the map second, and the log where numbers do not suffice.

The target alone answers, so a failover on any machine uses the same code as a restart of the copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import EARLIEST, TopicMetadata, leader_of, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.look import Look, PartitionQuery, look_at_leaders
from drkit.offset_map.scan import scan
from drkit.offset_map.settling import LookAt, ReadMap, Scan, Settled, Wanted, looking, settling
from drkit.offsets.resolution import LogBatch


async def settle(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Iterable[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: three requests per broker, and a scan where numbers do not suffice.

    :param read_map: updates the states in `wanted` to the end of the map topic
    """
    wanted = list(wanted)
    looks = await _looks(cluster, topics, wanted, read_map)
    return {w.target: await settle_one(cluster, topics, w, looks[w.target]) for w in wanted}


async def _looks(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: list[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Look]:
    steps = looking(wanted)
    answer: dict[TopicPartition, Look] | None = None
    while True:
        try:
            match steps.send(answer):
                case LookAt(asked):
                    answer = await look_at_leaders(cluster, topics, map(_asked, asked))
                case ReadMap():
                    await read_map()
                    answer = None
        except StopIteration as end:
            looks: dict[TopicPartition, Look] = end.value
            return looks


async def settle_one(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Wanted,
    look: Look,
    scan_up_to: int | None = None,
) -> Settled:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: how many target offsets may be read from the log where numbers do not settle the
        map; None: as many as it takes
    """
    steps = settling(wanted, look, scan_up_to)
    answer: list[LogBatch] | int | None = None
    while True:
        try:
            asked = steps.send(answer)
        except StopIteration as end:
            settled: Settled = end.value
            return settled
        node = leader_of(topics, wanted.target)
        try:
            if isinstance(asked, Scan):
                topic_id = topics[wanted.target.topic].topic_id
                first = asked.first_visible
                answer = await scan(
                    cluster, node, wanted.target, topic_id, asked.start, asked.end, first_visible=first
                )
            else:
                answer = await _log_start(cluster, node, wanted.target)
        except RawError:
            return Settled(None, codes.REQUEST_TIMED_OUT, look)


async def _log_start(cluster: RawCluster, node: int, target: TopicPartition) -> int:
    """The first offset left in a log; 0 where that is not answered.

    :raises RawError: no answer
    """
    listed = (await list_offsets(cluster, node, {target: EARLIEST}, committed=False))[target]
    return 0 if listed.error else max(0, listed.offset)


def _asked(w: Wanted) -> PartitionQuery:
    return PartitionQuery(w.target, w.bulk_id)
