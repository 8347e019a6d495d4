"""Who copies what: partitions → buckets → tasks. Pure.

A bucket is the unit of ownership (one partition of the offset map, one transactional id of bulk mode), so it
belongs to exactly one task of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.flow_state.left_out import tail_end_of
from drkit.flow_state.records import CutRecord, WrittenRecord
from drkit.model import TopicPartition
from drkit.offset_map.topic import bucket_of
from drkit.topic_sync.rules import CopiedTopic, TopicSyncResult

IDLE_BYTES_PER_SECOND: Final = 4096.0
"""Minimum weight of a partition: an idle one still takes part in every fetch."""
RECORD_COST_BYTES: Final = 40.0
"""Bytes added per record to its size, as the weight of a record."""
_MEMORY: Final = 0.5
"""Share of the newest measurement in the rate that is remembered."""
_BY_PARTITION: Final = attrgetter("source_topic", "partition")


class PlacedPartition(NamedTuple):
    """A partition to copy and its leader's broker id on the source (−1: no leader)."""

    lease: PartitionAssignment
    leader: int


def placed_of(
    found: TopicSyncResult,
    buckets: int,
    cuts: Mapping[str, CutRecord],
    written: Mapping[TopicPartition, WrittenRecord] = MappingProxyType({}),
) -> Iterator[PlacedPartition]:
    """Yield all partitions of the topics that can be copied.

    :param cuts: by source topic: the cuts at which copying began after a turn
    :param written: source partitions to whose copies another client wrote since then
    """
    for topic in found.copied.values():
        cut = cuts.get(topic.source.name)
        if cut is not None and not cut.is_of(topic.source.topic_id, UUID(topic.target_id)):
            cut = None
        for partition, leader in topic.source.leaders.items():
            stranger = written.get(TopicPartition(topic.source.name, partition))
            yield PlacedPartition(_lease(topic, partition, buckets, cut, stranger), leader.node)


def _lease(
    topic: CopiedTopic, partition: int, buckets: int, cut: CutRecord | None, stranger: WrittenRecord | None
) -> PartitionAssignment:
    kept_tail = cut.kept.get(partition) if cut is not None else None
    return PartitionAssignment(
        topic.source.name,
        str(topic.source.topic_id),
        topic.target_name,
        topic.target_id,
        partition,
        bucket_of(topic.source.name, partition, buckets),
        compacted=topic.compacted,
        max_message_bytes=topic.max_message_bytes,
        skip_from=cut.skip_from.get(partition) if cut is not None else None,
        rebuilt_from=cut.rebuilt.get(partition) if cut is not None else None,
        emptied_to=cut.emptied.get(partition, 0) if cut is not None else 0,
        tail_end=tail_end_of(cut.crossings_of(partition)) if cut is not None else 0,
        kept_to=kept_tail[0] if kept_tail is not None else None,
        kept_ids=kept_tail[1] if kept_tail is not None else (),
        returning=cut is not None and bool(cut.skip_from),
        written_at=stranger.offset if stranger is not None else None,
    )


@dataclass(slots=True)
class Rates:
    """Copy rate of each partition in earlier epochs, as a moving average."""

    weights: dict[TopicPartition, float] = field(default_factory=dict)

    def learn(self, at: TopicPartition, *, records: int, size: int, seconds: float) -> None:
        """Take the figures of one epoch; sizes in bytes."""
        if seconds <= 0:
            return
        seen = (size + records * RECORD_COST_BYTES) / seconds
        known = self.weights.get(at)
        self.weights[at] = seen if known is None else known + _MEMORY * (seen - known)

    def forget_all_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what is no longer copied."""
        keep = set(partitions)
        self.weights = {k: v for k, v in self.weights.items() if k in keep}

    def weight(self, at: TopicPartition) -> float:
        """Bytes per second, records included; never zero."""
        return IDLE_BYTES_PER_SECOND + self.weights.get(at, 0.0)


def assign(
    partitions: Iterable[PlacedPartition], tasks: int, rates: Rates | None = None
) -> list[tuple[PartitionAssignment, ...]]:
    """Spread whole buckets over at most `tasks` tasks; a task without work is left out.

    The heaviest bucket first, each to the least loaded task; among nearly equal ones to that which
    asks least of the bucket's source brokers, so that every task fetches from all of them.
    """
    rates = rates or Rates()
    buckets: dict[int, list[PlacedPartition]] = {}
    for placed in partitions:
        buckets.setdefault(placed.lease.bucket, []).append(placed)
    loads = {bucket: _load(found, rates) for bucket, found in buckets.items()}
    heaviest_first = sorted(buckets, key=lambda b: (-sum(loads[b].values()), b))
    total = sum(sum(load.values()) for load in loads.values())
    bins = [_Bin(number) for number in range(tasks)]
    for bucket in heaviest_first:
        best = min(bins, key=lambda b: b.cost(loads[bucket], total))
        best.take(bucket, loads[bucket])
    return [
        tuple(sorted((p.lease for b in each.buckets for p in buckets[b]), key=_BY_PARTITION))
        for each in bins
        if each.buckets
    ]


class _Bin:
    def __init__(self, number: int) -> None:
        self.number = number
        self.buckets: list[int] = []
        self.load = 0.0
        self.by_leader: dict[int, float] = {}

    def cost(self, load: Mapping[int, float], total: float) -> tuple[int, float, int, int]:
        # Loads within one hundredth of everything count as equal: measured rates are no finer.
        coarse = round(100 * self.load / total)
        shared = sum(self.by_leader.get(leader, 0.0) for leader in load)
        return coarse, shared, len(self.buckets), self.number

    def take(self, bucket: int, load: Mapping[int, float]) -> None:
        self.buckets.append(bucket)
        self.load += sum(load.values())
        for leader, weight in load.items():
            self.by_leader[leader] = self.by_leader.get(leader, 0.0) + weight


def _load(partitions: Iterable[PlacedPartition], rates: Rates) -> dict[int, float]:
    load: dict[int, float] = {}
    for lease, leader in partitions:
        weight = rates.weight(TopicPartition(lease.source_topic, lease.partition))
        load[leader] = load.get(leader, 0.0) + weight
    return load
