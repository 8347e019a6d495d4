"""Writes where partitions begin to be copied, before any task copies them: after a turn, or in a takeover.

Each bucket of the map is taken as a copy task takes it (decision 21): from then on no earlier task writes to
it. All that is written to a bucket is one transaction, so a partition begins as a whole or not at all.
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
"""How long a transaction stays open after its process was lost; readers of the map wait this long."""

Begun = Callable[[PartitionMap, int], Sequence[MapRecord]]
"""The records with which a partition begins, from what the map says of it and the number of the reign that
writes them; none where it has begun already."""


async def begin_partitions(
    cluster: RawCluster,
    flow: FlowSettings,
    wanted: Mapping[CopiedPartition, Begun],
    map_id: str = "",
    on_checked: Callable[[], None] = lambda: None,
) -> None:
    """Write the beginnings of some partitions into the offset map.

    All records are made before the first is written: what one of `wanted` raises leaves the map as it was.

    :param cluster: the target, connected
    :param map_id: id of the map topic; empty: any topic of that name
    :param on_checked: called in between
    :raises Failed: the map does not exist, is another one, or does not take the records
    :raises MapTaken: a copy task has taken a part of the map meanwhile
    """
    map_ = _Map(cluster, offset_map_topic(flow.source), map_id)
    by_bucket: dict[int, dict[CopiedPartition, Begun]] = {}
    for w, begun in wanted.items():
        by_bucket.setdefault(bucket_of(*w.source, flow.buckets), {})[w] = begun
    made: list[tuple[MapWriter, Sequence[tuple[MapKey, MapRecord]]]] = []
    for number, some in sorted(by_bucket.items()):
        name, bucket = map_transactional_id(flow.source, flow.target, number), MapBucket(number, map_.name)
        writer = await _taken(map_, Transactions(cluster, name, _OPEN_MS), bucket)
        made.append((writer, list(_records(bucket, writer.reign.number, some))))
    on_checked()
    for writer, records in made:
        await writer.write_whole(records)


class _Map(NamedTuple):
    """The map topic."""

    cluster: RawCluster
    name: str
    topic_id: str

    async def found(self) -> TopicMetadata:
        """Its id and leaders now."""
        found = await find_map(self.cluster, self.name)
        if self.topic_id and not found.error and str(found.topic_id) != self.topic_id:
            raise made_anew(self.name, self.topic_id, found.topic_id)
        return found


async def _taken(map_: _Map, transactions: Transactions, bucket: MapBucket) -> MapWriter:
    topic = await map_.found()

    async def leaders(again: bool) -> TopicMetadata:  # noqa: FBT001  as the writer asks
        return await map_.found() if again else topic

    writer = MapWriter(transactions, bucket, new_nonce(), leaders, lambda: False)
    await writer.take()
    await writer.begin(partial(read_on, map_.cluster, topic, bucket))
    return writer


def _records(
    bucket: MapBucket, reign: int, wanted: Mapping[CopiedPartition, Begun]
) -> Iterable[tuple[MapKey, MapRecord]]:
    for w, begun in wanted.items():
        key = MapKey(w.source_id, w.target_id, w.source.partition)
        state = bucket.of(w.source_id, w.target_id, w.source.partition)
        for record in begun(state, reign):
            yield key, record
