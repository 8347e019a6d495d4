"""Takes a snapshot of both clusters: the ranges that must be equal, by the offset map and the target's log.

Works beside a running replicator. The target's end offsets are taken first and the map is read after them:
each record before those ends was written to the map before it was appended, so the map knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.counted import counted
from drkit.errors import Failed
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.left_out import tail_end_of
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.flow_state.records import ReturnRecord, TakeoverRecord, VerifiedRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import LATEST, TopicMetadata, metadata
from drkit.kafka.requests import list_offsets as offsets_of_leader
from drkit.kafka.topics import describe_topics, list_offsets, topic_configs, topic_names
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.look import Look
from drkit.offset_map.reading import read_on
from drkit.offset_map.settling import Wanted, settle_one
from drkit.offset_map.topic import bucket_of
from drkit.offsets import MapKey, PartitionMap
from drkit.offsets.resolution import Resolution
from drkit.topology.topic_configs import is_compacted
from drkit.verify.ranges import PartitionView, TakenOver, closed, from_checked


class Unknown(Exception):
    """The map gives no exact answer for a partition; the text has the reason."""


class TargetMap:
    """The offset map of a flow, read at construction.

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
        self._state = FlowState()
        self.known = known_of(self._state)
        """The copied topics, with their failbacks."""
        self._missing = ""
        self._loop.run(self._read, topics)
        if self._topics[self._state_name].leaders:
            with closing(StateTopic(target, source)) as state:
                state.load()
                self._state, self.known = state.records, known_of(state.records)

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
        """Return a partition's map by the ends of its target partition. Raises Unknown if it has none."""
        state = PartitionMap()
        if not self._missing:
            bucket = self._buckets[bucket_of(*at, len(self._buckets))]
            if (doubt := bucket.doubt(key)) is not None:
                raise Unknown(doubt.reason)
            state = bucket.of(key.source_id, key.target_id, at.partition)
        if state.tail is None and not state.pending:
            if end > start:
                raise Unknown(self._missing or _unmapped(key, start, end))
            return Resolution.of_nothing(end, end)
        known, own = self.known, self.known.producers.own
        began_at, emptied = known.rebuilt.get(at, known.cuts.get(at)), known.emptied.get(at, 0)
        tail_end = tail_end_of(known.crossings.get(at, ()))
        wanted = Wanted(to, state, own, began_at=began_at, emptied=emptied, tail_end=tail_end)
        leader = self._topics[to.topic].leaders.get(to.partition)
        look = Look(0, end, start, leader.epoch if leader is not None else -1)
        settled = self._loop.run(settle_one, self._cluster, self._topics, wanted, look)
        if isinstance(settled.answer, Resolution):
            return settled.answer
        if settled.answer is None:
            raise Unknown(f"the target's log cannot be read: Kafka error code {settled.error}")
        raise Unknown(settled.answer.reason)

    def reaches(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether the target's log now reaches this offset."""
        node = self._topics[partition.topic].leaders[partition.partition].node

        async def ask() -> Any:
            return await offsets_of_leader(self._cluster, node, {partition: LATEST}, committed=False)

        return bool(self._loop.run(ask)[partition].offset >= offset)

    def turn(self, topic: str) -> str | None:
        """Return the failback run since which the flow copies a source topic, or None without one."""
        record = self._state.get(ReturnRecord, topic)
        return None if record is None else record.run_id

    def checked(self, partition: TopicPartition, now: VerifiedRecord) -> tuple[int, int] | None:
        """Return source and target offset up to which an earlier verification found these topics equal."""
        record = self._state.get(VerifiedRecord, VerifiedRecord.name_of(partition))
        if record is None or not record.is_of(now):
            return None
        return record.source_offset, record.target_offset

    def taken_over(self, key: MapKey, partition: TopicPartition) -> TakenOver | None:
        """Return where drkit continued a copy of MirrorMaker 2, or None if it did not."""
        record = self._state.get(TakeoverRecord, partition.topic)
        if record is None or (record.source_id, record.target_id) != (key.source_id, key.target_id):
            return None
        start = record.partitions.get(partition.partition)
        return None if start is None else TakenOver(start.resumed_at, start.target_end, start.committed)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
        self._loop.close()


def _unmapped(key: MapKey, start: int, end: int) -> str:
    return (
        f"the target holds offsets {start} to {end}, but the offset map knows nothing of this partition"
        f" (source topic id {key.source_id}, target topic id {key.target_id})"
    )


class Unclear(NamedTuple):
    """A partition that cannot be compared, and why."""

    topic: str
    partition: int
    reason: str


@dataclass(slots=True)
class Snapshot:
    """The partitions to compare, those that cannot be compared, and topics without a copy."""

    views: list[PartitionView] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    absent: dict[str, int] = field(default_factory=dict)
    """Source topics without a topic on the target yet, and the offsets they hold."""
    notes: list[str] = field(default_factory=list)
    ends: dict[TopicPartition, VerifiedRecord] = field(default_factory=dict)
    """Source partition → the record to keep if it is found equal."""


class _Pair(NamedTuple):
    """A topic and its copy."""

    source: TopicMetadata
    target: TopicMetadata


class _Side(NamedTuple):
    """Offsets of one cluster's partitions, and which of its topics are compacted."""

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    compacted: frozenset[str]


def take(
    flow: FlowSettings, source: Cluster, target: Cluster, chosen: Iterable[str], *, only_new: bool = False
) -> Snapshot:
    """Look at both clusters.

    :param chosen: names of source topics, or none for all that the flow copies
    :param only_new: leave out what an earlier verification found equal
    :raises Failed: a cluster stopped answering
    """
    selected = set(chosen)
    names = [t for t in topic_names(source) if flow.copies(t) and (not selected or t in selected)]
    out = Snapshot()
    on_source = describe_topics(source, names)
    on_target = describe_topics(target, [flow.naming_policy.downstream(t) for t in names])
    pairs = []
    for name, topic in on_source.items():
        copy = on_target.get(flow.naming_policy.downstream(name))
        if copy is None:
            out.absent[name] = _held(source, name, topic.leaders)
        else:
            pairs.append(_Pair(topic, copy))
    if pairs:
        with closing(_Look(flow, source, target, pairs, out)) as look:
            look.run(only_new=only_new)
    return out


def _held(cluster: Cluster, name: str, partitions: Iterable[int]) -> int:
    tps = [TopicPartition(name, p) for p in partitions]
    starts = list_offsets(cluster, tps, "earliest")
    ends = list_offsets(cluster, tps, "latest", committed=True)
    return sum(ends[tp] - starts[tp] for tp in tps)


class _Look:
    """One look at the topics of a flow."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, pairs: list[_Pair], out: Snapshot
    ) -> None:
        self._flow, self._pairs, self._out = flow, pairs, out
        # The order matters: the target's ends, then the map, then the source's ends.
        self._target = _side(target, [p.target for p in pairs])
        self._map = TargetMap(target.settings, flow.source, [p.target.name for p in pairs])
        self._source = _side(source, [p.source for p in pairs])

    def run(self, *, only_new: bool) -> None:
        """Fill the snapshot."""
        for pair in self._pairs:
            for number in sorted(pair.source.leaders):
                at, to = TopicPartition(pair.source.name, number), TopicPartition(pair.target.name, number)
                try:
                    view = self._view(pair, at, to)
                except (Unknown, Failed) as error:
                    self._out.unclear.append(Unclear(*at, str(error)))
                    continue
                ids, turn = (pair.source.topic_id, pair.target.topic_id), self._map.turn(at.topic)
                ends = VerifiedRecord(*ids, view.frontier, view.target_end, wall_ms(), turn)
                self._out.ends[at] = ends
                self._out.views.append(from_checked(view, self._map.checked(at, ends) if only_new else None))

    def close(self) -> None:
        """Close the connections."""
        self._map.close()

    def _view(self, pair: _Pair, at: TopicPartition, to: TopicPartition) -> PartitionView:
        if to not in self._target.ends:
            raise Unknown(f"the target topic has only {counted(len(pair.target.leaders), 'partition')}")
        end, emptied = self._target.ends[to], self._map.known.emptied.get(at, 0)
        start = max(self._target.starts[to], emptied)
        if self._target.starts[to] < emptied:
            self._out.notes.append(
                f"{to}: it was emptied up to offset {emptied}, and begins at {self._target.starts[to]} again;"
                " a failover empties it before it opens it"
            )
        key = MapKey(pair.source.topic_id, pair.target.topic_id, at.partition)
        resolution = self._map.settled(key, at, to, start, end)
        lost_from = resolution.truncated_from
        if lost_from is not None and not self._map.reaches(to, lost_from):
            self._out.notes.append(
                f"{to}: the target once reached offset {lost_from} and ends at {end} now;"
                " what it lost counts as not yet copied"
            )
        taken = None if emptied else self._map.taken_over(key, at)
        begin, known = resolution.segments.known_from(), closed(resolution.segments, end)
        if begin is None and not known:
            # The map covers no record of MirrorMaker 2's part, and nothing was copied since.
            begin = taken and taken.place
        before = begin is not None and not emptied
        if begin is None and known and at in self._map.known.cuts:
            # The target may have more in front of it: the other direction has given that up on this source.
            begin = self._source.starts[at], known[0].downstream
        return PartitionView(
            source=at, target=to, source_start=self._source.starts[at], source_end=self._source.ends[at],
            frontier=self._source.starts[at] if resolution.upstream is None else resolution.upstream,
            target_start=start, target_end=end, segments=known,
            source_compacted=at.topic in self._source.compacted,
            target_compacted=to.topic in self._target.compacted, begin=begin, before=before,
            taken_over=taken, apart=self._apart(at, to, resolution),
        )  # fmt: skip

    def _apart(
        self, at: TopicPartition, to: TopicPartition, resolution: Resolution
    ) -> tuple[tuple[int, int, int, int], ...]:
        out = []
        for c in self._map.known.crossings.get(at, ()):
            end = c.exact_end(resolution.segments, resolution.copied_end)
            out.append((c.source_first, c.source_end, c.target_first, end))
            self._out.notes.append(
                f"{to}: a return has kept a tail: it is among the offsets {c.target_first} to {end}, and"
                f" {c.source_first} to {c.source_end} of the source, and is not compared"
            )
        return tuple(out)


def _side(cluster: Cluster, topics: list[TopicMetadata]) -> _Side:
    tps = [TopicPartition(t.name, n) for t in topics for n in t.leaders]
    configs = topic_configs(cluster, [t.name for t in topics])
    compacted = [n for n, c in configs.items() if is_compacted(c)]
    return _Side(
        list_offsets(cluster, tps, "earliest"),
        list_offsets(cluster, tps, "latest", committed=True),
        frozenset(compacted),
    )
