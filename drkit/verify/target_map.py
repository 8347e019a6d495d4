"""The current offset map and flow state on the target, for a reader that writes nothing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.flow_state.copied_topics import began_of, crossings_of, cuts_of, emptied_of
from drkit.flow_state.left_out import tail_end_of
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.flow_state.records import ProducerIdsRecord, TakeoverRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import LATEST, TopicMetadata, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.look import Look
from drkit.offset_map.reading import read_on
from drkit.offset_map.settle import settle_one
from drkit.offset_map.settling import Wanted
from drkit.offset_map.topic import bucket_of
from drkit.offsets import MapKey, PartitionMap, SegmentMap
from drkit.offsets.crossing import Crossing
from drkit.offsets.resolution import Resolution
from drkit.verify import checked as verify_checked
from drkit.verify.ranges import TakenOver


class Unknown(Exception):
    """The map gives no exact answer for a partition; the text says why."""


class TargetMap:
    """The map of a flow, read when this is made.

    Unlike the copy task, it reads up to an end offset fixed at its start: beside a running replicator in bulk
    mode there is always another open transaction.

    :raises ClusterUnreachable: the target does not answer
    """

    def __init__(self, target: ClusterSettings, source: str, topics: list[str]) -> None:
        self._loop = EventLoop()
        self._cluster = RawCluster(self._loop, target, "verify")
        self._name = offset_map_topic(source)
        self._state_name = state_topic(source)
        self._topics: dict[str, TopicMetadata] = {}
        self._buckets: list[MapBucket] = []
        self._state: StateTopic | None = None
        self._missing = ""
        self._loop.run(self._read, topics)
        if self._topics[self._state_name].leaders:
            self._state = StateTopic(target, source)
            self._state.load()

    async def _read(self, topics: list[str]) -> None:
        await self._cluster.connected()
        self._topics = await metadata(self._cluster, [*topics, self._name, self._state_name])
        if not self._topics[self._name].leaders:
            self._missing = f"the offset map topic {self._name} does not exist on {self._cluster.alias}"
            return
        for number in sorted(self._topics[self._name].leaders):
            bucket = MapBucket(number, self._name)
            await read_on(self._cluster, self._topics[self._name], bucket)
            self._buckets.append(bucket)

    def settled(
        self, key: MapKey, at: TopicPartition, to: TopicPartition, start: int, end: int
    ) -> Resolution:
        """The map of a partition, given the target's first and last stable offset.

        :raises Unknown: the map cannot say it exactly
        """
        state = PartitionMap()
        if not self._missing:
            bucket = self._buckets[bucket_of(*at, len(self._buckets))]
            if (doubt := bucket.doubt(key)) is not None:
                raise Unknown(doubt.reason)
            state = bucket.of(key.source_id, key.target_id, at.partition)
        if state.tail is None and not state.pending:
            if end > start:
                raise Unknown(self._missing or _never_heard(key, start, end))
            return Resolution(
                segments=SegmentMap(),
                history=None,
                upstream=None,
                downstream=end,
                copied_end=end,
                sequence=0,
                leader_epoch=-1,
            )
        ids = self._state.get(ProducerIdsRecord) if self._state else None
        own = frozenset(ids.ids if ids is not None else ())
        began = began_of(self._state.records) if self._state else {}
        wanted = Wanted(to, state, own, began_at=began.get(at), emptied=self.emptied(at),
                        tail_end=tail_end_of(self.crossings(at)))  # fmt: skip
        leader = self._topics[to.topic].leaders.get(to.partition)
        look = Look(0, end, start, leader.epoch if leader is not None else -1)
        found = self._loop.run(settle_one, self._cluster, self._topics, wanted, look)
        if isinstance(found.answer, Resolution):
            return found.answer
        if found.answer is None:
            raise Unknown(f"the target's log cannot be read: Kafka error code {found.error}")
        raise Unknown(found.answer.reason)

    def emptied(self, at: TopicPartition) -> int:
        """The target offset before which the copy of a source partition was emptied; 0: it was not."""
        return emptied_of(self._state.records).get(at, 0) if self._state else 0

    def crossings(self, at: TopicPartition) -> tuple[Crossing, ...]:
        """Where both sides of a source partition have the same records in another order."""
        return crossings_of(self._state.records).get(at, ()) if self._state else ()

    def has_turned(self, at: TopicPartition) -> bool:
        """Whether copying a source partition began with the map of the other direction."""
        return self._state is not None and at in cuts_of(self._state.records)

    def reaches(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the target's log now reaches this offset."""
        node = self._topics[partition.topic].leaders[partition.partition].node

        async def ask() -> Any:
            return await list_offsets(self._cluster, node, {partition: LATEST}, committed=False)

        return bool(self._loop.run(ask)[partition].offset >= offset)

    def checked(self, ids: tuple[UUID, UUID], partition: TopicPartition) -> tuple[int, int] | None:
        """Source and target offset up to which an earlier verification found these topics equal."""
        return verify_checked.read(self._state, ids, partition) if self._state else None

    def taken_over(self, ids: tuple[UUID, UUID], partition: TopicPartition) -> TakenOver | None:
        """Where drkit continued, if MirrorMaker 2 had copied before."""
        found = self._state.get(TakeoverRecord, partition.topic) if self._state else None
        if found is None or (found.source_id, found.target_id) != ids:
            return None
        place = found.partitions.get(partition.partition)
        return None if place is None else TakenOver(place.resumed_at, place.target_end, place.committed)

    def close(self) -> None:
        """Close the connections."""
        if self._state is not None:
            self._state.close()
        self._cluster.close()
        self._loop.close()


def _never_heard(key: MapKey, start: int, end: int) -> str:
    return (
        f"the target holds offsets {start} to {end}, but the offset map knows nothing of this partition"
        f" (source topic id {key.source_id}, target topic id {key.target_id})"
    )
