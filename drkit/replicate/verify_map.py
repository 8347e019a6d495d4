"""The offset map and the flow's state as they stand on the target now, for one who only reads."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.flow_state.records import ProducerIdsRecord, TakeoverRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import EARLIEST, LATEST, TopicMetadata, fetch_one, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offsets import MapKey, PartitionMap, SegmentMap
from drkit.offsets.resolve import NeedLog, Resolution, resolve
from drkit.replicate import mapstore, verify_checked
from drkit.replicate.planner import bucket_of
from drkit.replicate.resume import scan
from drkit.replicate.verify_ranges import TakenOver

_PATIENCE_SECONDS = 60.0
"""Longer than a transaction of bulk mode stays open that its task left behind."""
_PAUSE_SECONDS = 0.05
_OFFSET_OUT_OF_RANGE = 1


class Unknown(Exception):
    """The map gives no exact answer for a partition; the text says why."""


class TargetMap:
    """The map of a flow, read when this is made.

    Unlike the copy task it reads up to an end that is fixed at its start: beside a running replicator in bulk
    mode there is always another open transaction.

    :raises ClusterUnreachable: the target does not answer
    """

    def __init__(self, target: ClusterSettings, source: str, topics: list[str]) -> None:
        self._loop = EventLoop()
        self._cluster = RawCluster(self._loop, target, "verify")
        self._name = offset_map_topic(source)
        self._state_name = state_topic(source)
        self._topics: dict[str, TopicMetadata] = {}
        self._buckets: list[mapstore.MapBucket] = []
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
            bucket = FixedEnd(number)
            await bucket.read(self._cluster, self._name, self._topics[self._name])
            self._buckets.append(bucket)

    def settled(
        self, key: MapKey, at: TopicPartition, to: TopicPartition, start: int, end: int
    ) -> Resolution:
        """Where a partition stands, given the target's first and last stable offset.

        :raises Unknown: the map cannot say it exactly
        """
        state = PartitionMap()
        if not self._missing:
            bucket = self._buckets[bucket_of(*at, len(self._buckets))]
            state = bucket.of(key.source_id, key.target_id, at.partition)
        if state.tail is None and not state.pending:
            if end > start:
                raise Unknown(self._missing or _never_heard(key, start, end))
            return Resolution(SegmentMap(), None, end, end, 0, -1)
        ids = self._state.get(ProducerIdsRecord) if self._state else None
        own = frozenset([*(ids.ids if ids is not None else ()), *(p.producer_id for p in state.pending)])
        answer = resolve(state, end=end, next_sequence=None, own_ids=own)
        if isinstance(answer, NeedLog):
            if not own:
                raise Unknown(f"{self._state_name} does not say which producer ids are this flow's")
            answer = self._with_log(state, to, answer.start, end, own)
        return answer

    def _with_log(
        self, state: PartitionMap, to: TopicPartition, start: int, end: int, own: frozenset[int]
    ) -> Resolution:
        topic = self._topics[to.topic]
        try:
            log = self._loop.run(
                scan, self._cluster, topic.leaders[to.partition].node, to, topic.topic_id, start, end
            )
        except (RawError, KeyError) as error:
            raise Unknown(f"the target's log cannot be read from offset {start} on: {error!r}") from error
        answer = resolve(state, end=end, next_sequence=None, own_ids=own, log=log)
        if isinstance(answer, NeedLog):
            raise Unknown(f"the target's log from offset {start} on does not settle the map")
        return answer

    def reaches(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the target's log goes as far as this offset now."""
        node = self._topics[partition.topic].leaders[partition.partition].node

        async def ask() -> Any:
            return await list_offsets(self._cluster, node, {partition: LATEST}, committed=False)

        return bool(self._loop.run(ask)[partition].offset >= offset)

    def checked(self, ids: tuple[UUID, UUID], partition: TopicPartition) -> tuple[int, int] | None:
        """Source and target offset up to which an earlier verification found these topics equal."""
        return verify_checked.read(self._state, ids, partition) if self._state else None

    def taken_over(self, ids: tuple[UUID, UUID], partition: TopicPartition) -> TakenOver | None:
        """Where drkit went on, if MirrorMaker 2 had copied before."""
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


class FixedEnd(mapstore.MapBucket):
    """Reads up to the end there was when reading began."""

    async def read(self, cluster: RawCluster, name: str, topic: TopicMetadata) -> None:
        """Read on; waits for the transactions that are open now, not for those that begin later.

        :raises Failed: a transaction stays open, or the partition has no leader
        """
        deadline, end = monotonic() + _PATIENCE_SECONDS, None
        while end is None or self.next_offset < end:
            leader = topic.leaders[self.bucket].node
            answer = await fetch_one(
                cluster, leader, (name, topic.topic_id), self.bucket, self.next_offset, max_wait_ms=20
            )
            before = self.next_offset
            if answer.error_code == 0:
                end = answer.high_watermark if end is None else end
                self._take(answer)
            elif answer.error_code == _OFFSET_OUT_OF_RANGE and self.next_offset == 0:
                where = TopicPartition(name, self.bucket)
                listed = await list_offsets(cluster, leader, {where: EARLIEST}, committed=False)
                self.next_offset = listed[where].offset
            else:
                topic = await mapstore.find_map(cluster, name)  # its leader may be another one by now
            if self.next_offset == before and (end is None or self.next_offset < end):
                if monotonic() > deadline:
                    raise Failed(
                        f"{name}-{self.bucket} cannot be read past offset {self.next_offset}",
                        where=cluster.alias,
                        evidence=f"Kafka error code {answer.error_code} (0: an open transaction)",
                        hint="list and abort hanging transactions on the target, then verify again",
                    )
                await cluster.loop.sleep(_PAUSE_SECONDS)
