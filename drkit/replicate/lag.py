"""How far the target is behind, measured at the clusters and not told by the tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import LATEST, ListedOffset, TopicMetadata, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offsets.resolve import Resolution
from drkit.replicate.mapstore import MapBucket, find_map
from drkit.replicate.planner import FlowPlan, bucket_of
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

    def measure(self, plan: FlowPlan) -> list[PartitionLag]:
        """Ask both clusters; empty when one of them does not answer."""
        try:
            found: list[PartitionLag] = self._loop.run(self._measure, plan)
        except (RawError, Failed, KeyError):
            return []
        return found

    async def _measure(self, plan: FlowPlan) -> list[PartitionLag]:
        await self._source.connected()
        await self._target.connected()
        sources = await metadata(self._source, [t.source_topic for t in plan.topics])
        targets = await metadata(self._target, [t.target_topic for t in plan.topics])
        ends = await _ends(self._source, sources)
        await self._read_map(plan)
        wanted = {w.target: w for w in self._wanted(plan, targets)}
        settled = await settle(self._target, targets, wanted.values())
        out = []
        for topic in plan.topics:
            for p in range(topic.partitions):
                here, there = TopicPartition(topic.source_topic, p), TopicPartition(topic.target_topic, p)
                answer = settled.get(there)
                end = ends.get(here)
                if answer is None or answer.resolution is None or end is None or end.error:
                    continue
                out.append(_lag(here, end.offset, answer.resolution))
        return out

    async def _read_map(self, plan: FlowPlan) -> None:
        topic = await find_map(self._target, plan.map_topic)
        for t in plan.topics:
            for p in range(t.partitions):
                bucket = bucket_of(t.source_topic, p, plan.buckets)
                self._buckets.setdefault(bucket, MapBucket(bucket))
        for bucket_map in self._buckets.values():
            await bucket_map.read(self._target, plan.map_topic, topic)

    def _wanted(self, plan: FlowPlan, targets: dict[str, TopicMetadata]) -> Iterable[Wanted]:
        own = frozenset(plan.own_producer_ids)
        for t in plan.topics:
            if t.target_topic not in targets:
                continue
            for p in range(t.partitions):
                bucket = self._buckets[bucket_of(t.source_topic, p, plan.buckets)]
                state = bucket.of(UUID(t.source_topic_id), UUID(t.target_topic_id), p)
                # A look must not change what the next look starts from.
                looked = replace(state, segments=state.segments.copy(), pending=list(state.pending))
                yield Wanted(TopicPartition(t.target_topic, p), looked, own, plan.producer_id)

    def close(self) -> None:
        """Close the connections."""
        self._source.close()
        self._target.close()
        self._loop.close()


def _lag(at: TopicPartition, source_end: int, resolution: Resolution) -> PartitionLag:
    frontier = resolution.upstream if resolution.upstream is not None else 0
    return PartitionLag(at.topic, at.partition, source_end, frontier, resolution.downstream)


async def _ends(
    cluster: RawCluster, topics: dict[str, TopicMetadata]
) -> dict[TopicPartition, ListedOffset]:
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for name, topic in topics.items():
        for partition, leader in topic.leaders.items():
            if leader.node >= 0:
                by_node.setdefault(leader.node, {})[TopicPartition(name, partition)] = LATEST
    out: dict[TopicPartition, ListedOffset] = {}
    for node, wanted in by_node.items():
        out.update(await list_offsets(cluster, node, wanted, committed=True))
    return out
