"""How far each partition got, by the target alone: its map, and what its leaders say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from drkit.errors import Failed
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import LATEST, TopicMetadata, fetch_one, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offsets import PartitionMap
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve
from drkit.replicate.mapstore import MapBucket
from drkit.replicate.planner import bucket_of
from drkit.replicate.resume import Look, Wanted, look_at_leaders, scan

_TRIES: Final = 50
_OFFSET_OUT_OF_RANGE: Final = 1


class Copied(NamedTuple):
    """A topic that the flow's state says is copied."""

    topic: str
    source_id: UUID
    target_topic: str
    target_id: UUID


class Place(NamedTuple):
    """Where one partition stands."""

    frontier: int | None
    """First source offset that is not on the target; 0: nothing was copied; None: see the reason."""
    target_end: int | None
    exact: bool = True
    segments: int = 0
    reason: str = ""


class _Bucket(MapBucket):
    """A bucket of the map, read up to an end that was taken before."""

    async def read_to(self, cluster: RawCluster, name: str, topic: TopicMetadata, end: int) -> None:
        tries = 0
        while self.next_offset < end:
            before = self.next_offset
            where = (name, topic.topic_id)
            answer = await fetch_one(
                cluster, topic.leaders[self.bucket].node, where, self.bucket, before, max_wait_ms=20
            )
            if answer.error_code == 0:
                self._take(answer)
            elif answer.error_code == _OFFSET_OUT_OF_RANGE:
                self.forget()
            tries = tries + 1 if self.next_offset <= before else 0
            if tries > _TRIES:
                raise Failed(
                    "the offset map cannot be read",
                    where=f"{name}-{self.bucket} on {cluster.alias}",
                    evidence=f"stuck at offset {before} of {end}, Kafka error code {answer.error_code}",
                )

    def forget(self) -> None:
        self.next_offset, self.keys = 0, {}
        for state in self.partitions.values():
            state.clear()


@dataclass(slots=True)
class TargetSide:
    """Reads the map of a flow; keeps what it has read.

    :param scan_up_to: how many target offsets may be read from a log where numbers do not settle the map
    """

    cluster: RawCluster
    map_topic: str
    scan_up_to: int = 0
    _buckets: dict[int, _Bucket] = field(default_factory=dict)
    _map_id: UUID | None = None

    async def places(
        self, copied: Iterable[Copied], producer_id: int, own_ids: frozenset[int]
    ) -> dict[TopicPartition, Place]:
        """Every partition of these topics, by its name on the source.

        The leaders are asked before the map is read: an intent is durable before its batch.

        :raises RawError: the target does not answer
        :raises Failed: the map cannot be read
        """
        copied = list(copied)
        topics = await metadata(self.cluster, [self.map_topic, *{c.target_topic for c in copied}])
        out: dict[TopicPartition, Place] = {}
        wanted: dict[TopicPartition, Wanted] = {}
        for c in copied:
            found = topics[c.target_topic]
            if found.error or found.topic_id != c.target_id:
                out[TopicPartition(c.topic, -1)] = Place(None, None, reason="the target topic was deleted")
                continue
            for number in found.leaders:
                to = TopicPartition(c.target_topic, number)
                wanted[TopicPartition(c.topic, number)] = Wanted(to, PartitionMap(), own_ids, producer_id)
        looks = await look_at_leaders(self.cluster, topics, wanted.values())
        await self._read(topics[self.map_topic])
        by_topic = {c.topic: c for c in copied}
        states = {at: self._state(by_topic[at.topic], at) for at in wanted}
        # The map may have gone on since; only one that is still shorter shows that the target lost records.
        behind = [w for at, w in wanted.items() if _confirmed(states[at]) > looks[w.target].end >= 0]
        looks |= await look_at_leaders(self.cluster, topics, behind)
        for at, w in wanted.items():
            out[at] = await self._place(replace(w, state=states[at]), looks[w.target], topics)
        return out

    def _state(self, copied: Copied, at: TopicPartition) -> PartitionMap:
        if not self._buckets:
            return PartitionMap()
        bucket = self._buckets[bucket_of(*at, len(self._buckets))]
        return bucket.of(copied.source_id, copied.target_id, at.partition)

    async def _read(self, topic: TopicMetadata) -> None:
        if topic.topic_id != self._map_id:
            self._map_id, self._buckets = topic.topic_id, {}
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for number, leader in topic.leaders.items():
            by_node.setdefault(leader.node, {})[TopicPartition(self.map_topic, number)] = LATEST
        for node, asked in by_node.items():
            for at, end in (await list_offsets(self.cluster, node, asked, committed=True)).items():
                bucket = self._buckets.setdefault(at.partition, _Bucket(at.partition))
                await bucket.read_to(self.cluster, self.map_topic, topic, end.offset)

    async def _place(self, wanted: Wanted, look: Look, topics: Mapping[str, TopicMetadata]) -> Place:
        state, tail, size = wanted.state, wanted.state.tail, len(wanted.state.segments)
        known = tail.upstream if tail else None
        if look.error:
            return Place(known, None, False, size, f"its leader says Kafka error code {look.error}")  # noqa: FBT003
        if tail is None and not state.pending:
            reason = "the offset map knows nothing of it" if look.end else ""
            return Place(None if look.end else 0, look.end, reason=reason)
        if tail is not None and not tail.live and not state.pending and tail.downstream <= look.end:
            return Place(tail.upstream, look.end, segments=size)  # committed together with its records
        answer = _resolved(wanted, look)
        if isinstance(answer, NeedLog) and look.end - answer.start <= self.scan_up_to:
            answer = await self._scanned(wanted, look, answer.start, topics)
        if isinstance(answer, Resolution):
            return Place(answer.upstream or 0, look.end, segments=len(answer.segments))
        reason = "" if known is not None else "the target's log must be read to settle the map"
        return Place(known, look.end, False, size, reason)  # noqa: FBT003  fields of a tuple

    async def _scanned(
        self, wanted: Wanted, look: Look, start: int, topics: Mapping[str, TopicMetadata]
    ) -> Resolution | NeedLog:
        topic, (name, number) = topics[wanted.target.topic], wanted.target
        node, where = topic.leaders[number].node, TopicPartition(name, number)
        try:
            log = await scan(self.cluster, node, where, topic.topic_id, start, look.end)
        except RawError:
            return NeedLog(start)
        return _resolved(wanted, look, log)


def _resolved(wanted: Wanted, look: Look, log: list[LogBatch] | None = None) -> Resolution | NeedLog:
    # What this look finds is the copier's to write down: the next look starts from the map again.
    state = replace(wanted.state, segments=wanted.state.segments.copy())
    return resolve(state, end=look.end, next_sequence=look.next_sequence, own_ids=wanted.own_ids, log=log)


def _confirmed(state: PartitionMap) -> int:
    return state.tail.downstream if state.tail else 0
