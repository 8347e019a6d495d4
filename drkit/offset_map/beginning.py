"""Writes the first map records of partitions before any task copies them: after a turn, or in a takeover.

Each bucket of the map is taken as by a copy task (decision 21), which fences earlier tasks. All records of a
bucket are written in one transaction, so a partition begins completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from drkit.config import FlowSettings
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.names import map_transactional_id, offset_map_topic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.transactions import Transactions
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.reading import read_on
from drkit.offset_map.topic import bucket_of, find_map, made_anew, new_nonce
from drkit.offset_map.writer import MapWriter
from drkit.offsets import MapKey, MapRecord, PartitionMap

_OPEN_MS: Final = 30_000
"""Transaction timeout: readers of the map wait this long after a crash of the writer."""

Begun = Callable[[PartitionMap, int], Sequence[MapRecord]]
"""Returns the first records of a partition, given its state in the map and the number of the reign that
writes them; no records if it has begun already."""


async def begin_partitions(
    cluster: RawCluster,
    flow: FlowSettings,
    wanted: Mapping[CopiedPartition, Begun],
    map_id: str = "",
    on_checked: Callable[[], None] = lambda: None,
) -> None:
    """Write the beginnings of some partitions into the offset map.

    All records are built before the first is written: if one of `wanted` raises, nothing is written.

    :param cluster: the target, connected
    :param map_id: id of the map topic; empty: any topic of that name
    :param on_checked: called after building, before writing
    :raises Failed: the map does not exist, is another one, or does not take the records
    :raises MapTaken: a copy task has taken a part of the map meanwhile
    """
    map_ = _Map(cluster, offset_map_topic(flow.source), map_id)
    by_bucket: dict[int, dict[CopiedPartition, Begun]] = {}
    for copy, begun in wanted.items():
        by_bucket.setdefault(bucket_of(*copy.source, flow.buckets), {})[copy] = begun
    writes: list[tuple[MapWriter, Sequence[tuple[MapKey, MapRecord]]]] = []
    for number, of_bucket in sorted(by_bucket.items()):
        name, bucket = map_transactional_id(flow.source, flow.target, number), MapBucket(number, map_.name)
        writer = await _take_bucket(map_, Transactions(cluster, name, _OPEN_MS), bucket)
        writes.append((writer, list(_records(bucket, writer.reign.number, of_bucket))))
    on_checked()
    for writer, records in writes:
        await writer.write_whole(records)


class _Map(NamedTuple):
    """The map topic."""

    cluster: RawCluster
    name: str
    topic_id: str

    async def found(self) -> TopicMetadata:
        """Its id and leaders now."""
        topic = await find_map(self.cluster, self.name)
        if self.topic_id and not topic.error and str(topic.topic_id) != self.topic_id:
            raise made_anew(self.name, self.topic_id, topic.topic_id)
        return topic


async def _take_bucket(map_: _Map, transactions: Transactions, bucket: MapBucket) -> MapWriter:
    topic = await map_.found()
    writer = MapWriter(transactions, bucket, new_nonce(), lambda _again: map_.found(), lambda: False)
    await writer.take()
    await writer.begin(partial(read_on, map_.cluster, topic, bucket))
    return writer


def _records(
    bucket: MapBucket, reign: int, beginnings: Mapping[CopiedPartition, Begun]
) -> Iterable[tuple[MapKey, MapRecord]]:
    for copy, begun in beginnings.items():
        key = MapKey(copy.source_id, copy.target_id, copy.source.partition)
        state = bucket.partitions.setdefault(key, PartitionMap())
        yield from ((key, record) for record in begun(state, reign))
