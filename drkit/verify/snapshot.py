"""Both clusters at one moment: what is to be equal, by the offset map settled against the target's log.

Works beside a running replicator. The target's end offsets are taken first and the map is read after them:
each record before those ends was written to the map before it was appended, so the map knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import describe_topics, list_offsets, topic_configs, topic_names
from drkit.model import TopicPartition
from drkit.offsets import MapKey
from drkit.offsets.resolution import Resolution
from drkit.topology.topic_configs import is_compacted
from drkit.verify.ranges import PartitionView, closed, from_checked
from drkit.verify.target_map import TargetMap, Unknown


class Unclear(NamedTuple):
    """A partition that cannot be compared, and why."""

    topic: str
    partition: int
    reason: str


@dataclass(slots=True)
class Snapshot:
    """What can be compared, what cannot, and what does not exist yet."""

    views: list[PartitionView] = field(default_factory=list)
    unclear: list[Unclear] = field(default_factory=list)
    absent: dict[str, int] = field(default_factory=dict)
    """Source topics without a topic on the target yet, and the offsets they hold."""
    notes: list[str] = field(default_factory=list)
    ids: dict[str, tuple[UUID, UUID]] = field(default_factory=dict)
    """Source topic → ids of the topic on both sides."""


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

    :param chosen: names of source topics; none: all that the flow copies
    :param only_new: leave out what an earlier verification found equal
    :raises Failed: a cluster stopped answering
    """
    wanted = set(chosen)
    names = [t for t in topic_names(source) if flow.copies(t) and (not wanted or t in wanted)]
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
            out.ids[name] = (topic.topic_id, copy.topic_id)
    if pairs:
        look = _Look(flow, source, target, pairs, out)
        try:
            look.run(only_new=only_new)
        finally:
            look.close()
    return out


def _held(cluster: Cluster, name: str, partitions: Iterable[int]) -> int:
    where = [TopicPartition(name, p) for p in partitions]
    starts = list_offsets(cluster, where, "earliest")
    ends = list_offsets(cluster, where, "latest", committed=True)
    return sum(ends[p] - starts[p] for p in where)


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
                ids = (pair.source.topic_id, pair.target.topic_id)
                self._out.views.append(from_checked(view, self._map.checked(ids, at) if only_new else None))

    def close(self) -> None:
        """Close the connections."""
        self._map.close()

    def _view(self, pair: _Pair, at: TopicPartition, to: TopicPartition) -> PartitionView:
        if to not in self._target.ends:
            raise Unknown(f"the target topic has only {counted(len(pair.target.leaders), 'partition')}")
        end, emptied = self._target.ends[to], self._map.emptied(at)
        start = max(self._target.starts[to], emptied)
        if self._target.starts[to] < emptied:
            self._out.notes.append(
                f"{to}: it was emptied up to offset {emptied}, and begins at {self._target.starts[to]} again;"
                " a failover empties it before it opens it"
            )
        key = MapKey(pair.source.topic_id, pair.target.topic_id, at.partition)
        found = self._map.settled(key, at, to, start, end)
        if found.truncated_from is not None and not self._map.reaches(to, found.truncated_from):
            self._out.notes.append(
                f"{to}: the target once reached offset {found.truncated_from} and ends at {end} now;"
                " what it lost counts as not yet copied"
            )
        taken = self._map.taken_over((pair.source.topic_id, pair.target.topic_id), at)
        begin, known = found.segments.known_from(), closed(found.segments, end)
        if begin is None and not known:
            # The map covers no record of MirrorMaker 2's part, and nothing was copied since.
            begin = taken and taken.place
        before = begin is not None and not emptied
        if begin is None and known and self._map.has_turned(at):
            # The target may have more in front of it: the other direction has given that up on this source.
            begin = self._source.starts[at], known[0].downstream
        return PartitionView(
            source=at,
            target=to,
            source_start=self._source.starts[at],
            source_end=self._source.ends[at],
            frontier=self._source.starts[at] if found.upstream is None else found.upstream,
            target_start=start,
            target_end=end,
            segments=known,
            source_compacted=at.topic in self._source.compacted,
            target_compacted=to.topic in self._target.compacted,
            begin=begin,
            before=before,
            taken_over=taken,
            apart=self._apart(at, to, found),
        )

    def _apart(
        self, at: TopicPartition, to: TopicPartition, found: Resolution
    ) -> tuple[tuple[int, int, int, int], ...]:
        """The crossings: where a return has kept a tail, at different offsets on each side."""
        out = []
        for c in self._map.crossings(at):
            end = c.exact_end(found.segments, found.copied_end)
            out.append((c.source_first, c.source_end, c.target_first, end))
            self._out.notes.append(
                f"{to}: a return has kept a tail: it is among the offsets {c.target_first} to {end}, and"
                f" {c.source_first} to {c.source_end} of the source, and is not compared"
            )
        return tuple(out)


def _side(cluster: Cluster, topics: list[TopicMetadata]) -> _Side:
    where = [TopicPartition(t.name, n) for t in topics for n in t.leaders]
    configs = topic_configs(cluster, [t.name for t in topics])
    compacted = [n for n, c in configs.items() if is_compacted(c)]
    return _Side(
        list_offsets(cluster, where, "earliest"),
        list_offsets(cluster, where, "latest", committed=True),
        frozenset(compacted),
    )
