"""How far the target is behind, measured at the clusters and not told by the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import LATEST, ListedOffset, TopicMetadata, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offsets import PartitionMap
from drkit.offsets.resolve import Resolution
from drkit.replicate.lease import TaskLease
from drkit.replicate.mapstore import MapBucket, find_map
from drkit.replicate.resume import Wanted, settle


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: offsets on both sides; None where the answer is missing."""

    topic: str
    partition: int
    source_end: int
    """Last stable offset: what a read-committed consumer may read."""
    frontier: int
    target_end: int

    @property
    def offsets(self) -> int:
        """Source offsets not yet copied (markers and aborted records included)."""
        return max(0, self.source_end - self.frontier)


class LagMeter:
    """Keeps two connections and what it has read of the offset map; use it from one thread."""

    def __init__(self, source: ClusterSettings, target: ClusterSettings) -> None:
        self._loop = EventLoop()
        self._source = RawCluster(self._loop, source, "lag")
        self._target = RawCluster(self._loop, target, "lag")
        self._buckets: dict[int, MapBucket] = {}

    def measure(self, leases: Sequence[TaskLease]) -> list[PartitionLag]:
        """Ask both clusters about all leased partitions; empty when one of them does not answer."""
        if not leases:
            return []
        try:
            found: list[PartitionLag] = self._loop.run(self._measure, leases)
        except (RawError, Failed, KeyError):
            return []
        return found

    async def _measure(self, leases: Sequence[TaskLease]) -> list[PartitionLag]:
        await self._source.connected()
        await self._target.connected()
        partitions = [p for lease in leases for p in lease.partitions]
        sources = await metadata(self._source, sorted({p.source_topic for p in partitions}))
        targets = await metadata(self._target, sorted({p.target_topic for p in partitions}))
        ends = await _ends(self._source, sources)

        async def read_map() -> None:
            await self._read_map(leases[0].map_topic, {p.bucket for p in partitions})

        settled = await settle(self._target, targets, self._wanted(leases), read_map)
        out = []
        for p in partitions:
            at = TopicPartition(p.source_topic, p.partition)
            answer, end = settled.get(TopicPartition(p.target_topic, p.partition)), ends.get(at)
            if answer is not None and answer.resolution is not None and end is not None and not end.error:
                out.append(_lag(at, end.offset, answer.resolution))
        return out

    async def _read_map(self, name: str, buckets: set[int]) -> None:
        topic = await find_map(self._target, name)
        for bucket in buckets:
            await self._buckets.setdefault(bucket, MapBucket(bucket)).read(self._target, name, topic)

    def _looked_at(self, leases: Sequence[TaskLease]) -> list[tuple[PartitionMap, Wanted]]:
        """Each partition's state, and a copy to look at: a look must not change the next one's start."""
        out = []
        for lease in leases:
            own = frozenset(lease.own_producer_ids)
            for p in lease.partitions:
                bucket = self._buckets.setdefault(p.bucket, MapBucket(p.bucket))
                state = bucket.of(p.source_id, p.target_id, p.partition)
                at = TopicPartition(p.target_topic, p.partition)
                out.append((state, Wanted(at, PartitionMap(), own, lease.producer_id)))
        return out

    def close(self) -> None:
        """Close the connections."""
        self._source.close()
        self._target.close()
        self._loop.close()


def _lag(at: TopicPartition, source_end: int, resolution: Resolution) -> PartitionLag:
    frontier = resolution.upstream if resolution.upstream is not None else 0
    return PartitionLag(at.topic, at.partition, source_end, frontier, resolution.downstream)


async def _ends(cluster: RawCluster, topics: dict[str, TopicMetadata]) -> dict[TopicPartition, ListedOffset]:
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for name, topic in topics.items():
        for partition, leader in topic.leaders.items():
            if leader.node >= 0:
                by_node.setdefault(leader.node, {})[TopicPartition(name, partition)] = LATEST
    out: dict[TopicPartition, ListedOffset] = {}
    for node, wanted in by_node.items():
        out.update(await list_offsets(cluster, node, wanted, committed=True))
    return out
