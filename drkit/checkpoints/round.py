"""One checkpoint round for a shard of groups: read, translate, write checkpoints, sync (KIP-382, KIP-545).

Group offsets are read before the partitions are looked at, so that by then the copy has mostly passed them.
One that it has not passed waits; meanwhile the newest one seen before that it has passed is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from drkit.allocator import search_seldom
from drkit.checkpoints.shard import NO_ROUND, Shard, ShardReport
from drkit.checkpoints.sync import GroupPosition, Positions, follow_deleted, sync_groups
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.kafka.groups.requests import DEAD, Groups
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import metadata
from drkit.kafka.topics import not_deleted
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import GuardVerdict, StoredOffset, positions_in
from drkit.offsets.mm2_records import Checkpoint, ForgottenCheckpoint
from drkit.offsets.translation import PartitionPosition, Translation

_OFFSETS: Final = 4
"""Number of offsets of a group, seen in earlier rounds, that are remembered."""


@dataclass(slots=True)
class Remembered:
    """Memory of one group between rounds, by source partition. Losing it costs nothing but work.

    Spark gives a task any idle worker. So the driver names the last round that looked at a group: the memory
    is valid only in the process that did this round.
    """

    offsets: Mapping[TopicPartition, tuple[int, str]] | None = None
    """Offsets in copied topics at the last look, each with its metadata, or None if they may be outdated."""
    seen: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """Its earlier offsets, newest first."""
    emitted: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The offsets of its checkpoints."""
    round: int = NO_ROUND
    """The last round in which this was true."""

    def newest_first(self, tp: TopicPartition, offset: int) -> tuple[int, ...]:
        """Record the current offset; return it and the earlier ones, which the group has passed."""
        earlier = self.seen.get(tp, ())
        if not earlier or offset < earlier[0]:
            self.seen[tp] = earlier = (offset,)  # it was reset: earlier offsets no longer show its work
        elif earlier[0] != offset:
            self.seen[tp] = earlier = (offset, *earlier[: _OFFSETS - 1])
        return earlier

    def keep(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Record the offsets, and forget the partitions in which the group has none any more."""
        self.offsets = offsets
        for tp in self.seen.keys() - offsets.keys():
            del self.seen[tp]
            self.emitted.pop(tp, None)


@dataclass(slots=True)
class Memory:
    """Memory of all groups of a flow."""

    groups: dict[str, Remembered] = field(default_factory=dict)
    topic_id: str = ""
    """Id of the topic into which the checkpoints were emitted."""

    def begin(self, shard: Shard) -> None:
        """Forget outdated entries, before a round."""
        if self.topic_id != shard.topic_id:
            self.topic_id = shard.topic_id
            for group in self.groups.values():
                group.emitted = {}
        for name, last_round in zip(shard.groups, shard.last or [NO_ROUND] * len(shard.groups), strict=True):
            group = self.groups.pop(name) if name in self.groups else Remembered()
            self.groups[name] = group  # keeps the least recently used group first
            is_current = last_round != NO_ROUND and last_round == group.round
            if shard.last and not is_current:
                group.emitted = {}
            if not is_current:
                group.offsets = None
            group.round = NO_ROUND
        while len(self.groups) > max(shard.remembered, len(shard.groups)):
            del self.groups[next(iter(self.groups))]

    def end(self, shard: Shard) -> None:
        """Mark the groups of a complete round as up to date."""
        for name in shard.groups:
            self.groups[name].round = shard.round


async def take_back(
    shard: Shard, topic: CheckpointTopic, source: RawCluster, groups: Groups, target: RawCluster
) -> list[str]:
    """Take back the recorded checkpoints that are void; return their groups.

    A source that lost its data, that is another cluster now, or that hides a group must never look like a
    deletion: a failover needs these checkpoints most then.

    :param groups: the source's
    :raises Failed: the topic does not accept the tombstones
    """
    if not shard.recorded:
        return []
    copies = shard.known.upstream
    others = {name for _, name, _ in shard.recorded if name not in copies}
    no_topics = others - (await not_deleted(target, others)).keys()
    gone = await _gone(shard, source, groups, {(group, name) for group, name, _ in shard.recorded})
    void = [
        ForgottenCheckpoint(group, name, partition)
        for group, name, partition in shard.recorded
        if name in no_topics or (group, name) in gone
    ]
    topic.write(void)
    return sorted({each.group for each in void})


async def _gone(
    shard: Shard, source: RawCluster, groups: Groups, pairs: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return those of some groups, each with a copied topic, that the topic's own cluster proves are gone.

    A list of groups proves nothing: it lacks a group whose coordinator is away.
    """
    copies, topics = shard.known.upstream, shard.known.topics
    names = sorted({copies[name] for _, name in pairs if name in copies})
    topics_now = await metadata(source, names) if names else {}
    same = {name for name, topic in topics_now.items() if topic.topic_id == topics[name][1]}
    asked = {(group, name) for group, name in pairs if copies.get(name) in same}
    states = await groups.describe(sorted({group for group, _ in asked}))
    dead = {group for group, state in states.items() if state.value is not None and state.value.state == DEAD}
    return {(group, name) for group, name in asked if group in dead}


_AGAIN: Final = frozenset(
    v.name for v in GuardVerdict if v.is_refusal and v not in {GuardVerdict.PROMOTED, GuardVerdict.MOVED}
)
"""The next round looks again at groups with one of these verdicts."""


class RoundLinks(NamedTuple):
    """The connections of a round."""

    source: RawCluster
    target: RawCluster
    places: PositionReader
    topic: CheckpointTopic | None
    """Where checkpoints are written, or None if none are wanted."""
    source_groups: Groups
    """The source's groups; knows their coordinators from round to round."""
    target_groups: Groups
    """The target's."""


async def checkpoint_round(shard: Shard, links: RoundLinks, memory: Memory) -> ShardReport:
    """Do one round.

    :raises RawError: a cluster stopped answering; the next round starts over
    :raises Failed: the offset map cannot be read
    """
    started = monotonic()
    memory.begin(shard)
    report = ShardReport(
        shard.number, shard.round, len(shard.groups), synced=shard.sync, started_ms=wall_ms()
    )
    for groups in (links.source_groups, links.target_groups):
        groups.keep(shard.remembered)
    look_again: set[str] = set()
    positions = await _positions(shard, links, memory, report, look_again)
    if shard.sync:
        sides = links.source_groups, links.target_groups
        await sync_groups(shard, sides, links.target.loop, positions, report)
        if shard.gone:
            committed = await links.target_groups.committed(shard.gone)
            pairs = {(group, tp.topic) for group, each in committed.items() for tp in each.value or ()}
            gone = await _gone(shard, links.source, links.source_groups, pairs)
            report.deleted = await follow_deleted(shard, links.target_groups, {group for group, _ in gone})
    if links.topic is not None:
        try:
            report.forgotten = await take_back(
                shard, links.topic, links.source, links.source_groups, links.target
            )
            changed = _emit(links.topic, positions, memory, shard.known.cuts)
            report.emitted, report.emitted_groups = changed.total(), sorted(changed)
            report.latency_ms = round(1000 * (monotonic() - started))
        except RawError:
            raise
        except Failed as error:  # the groups' offsets are written nevertheless
            report.error = error.in_short
    if not report.error:
        memory.end(shard)
    look_again |= {group for group, verdicts in report.verdicts_of.items() if not _AGAIN.isdisjoint(verdicts)}
    report.again = sorted(look_again)
    report.seconds = monotonic() - started
    return report


async def _positions(
    shard: Shard, links: RoundLinks, memory: Memory, report: ShardReport, look_again: set[str]
) -> dict[str, Positions]:
    """Return the positions of the shard's groups; add to `look_again` those that are ahead of the copy."""
    committed = await _committed(shard, links.source_groups, memory, report)
    for group, offsets in committed.items():
        memory.groups[group].keep(offsets)
    pairs = {tp: shard.known.pair(*tp) for tp in set().union(*committed.values())}
    if not pairs:
        return {}
    by_partition = await links.places.look(pairs.values(), shard.known.producers, links.source)
    by_group: dict[str, Positions] = {}
    for group, offsets in committed.items():
        remembered, positions = memory.groups[group], by_group.setdefault(group, {})
        for tp, stored in offsets.items():
            position = by_partition[tp]
            used, translation = _newest(remembered, tp, stored, position)
            settled = position if isinstance(position, PartitionPosition) else None
            positions[tp] = GroupPosition(used, pairs[tp].target, translation, settled)
            if (isinstance(translation, Unavailable) or used is not stored) and stored.mark is None:
                look_again.add(group)
    return by_group


async def _committed(
    shard: Shard, groups: Groups, memory: Memory, report: ShardReport
) -> dict[str, dict[TopicPartition, StoredOffset]]:
    """Return the committed positions in copied topics, without quick groups that are unchanged."""
    read = await groups.committed(shard.groups)
    report.unread = {g: a.error for g, a in read.items() if a.value is None}
    topics, by_group = shard.known.topics, {}
    for group, answer in read.items():
        offsets = positions_in(answer.value or {}, topics)
        report.positions_of[group] = len(offsets)
        if group in shard.quick and answer.value is not None and offsets == memory.groups[group].offsets:
            report.same.append(group)
        else:
            by_group[group] = offsets
    report.positions = sum(report.positions_of.values())
    return by_group


def _newest(
    group: Remembered, tp: TopicPartition, stored: StoredOffset, position: PartitionPosition | Unavailable
) -> tuple[StoredOffset, Translation]:
    """Return the group's offset, an earlier one until the copy has passed the newest, and its translation."""
    offsets = group.newest_first(tp, stored.offset)
    if isinstance(position, Unavailable):
        return stored, position
    if stored.mark is None and position.waits_for(stored.offset):
        for earlier in offsets:
            translation = position.forward(earlier)
            if not isinstance(translation, Unavailable):
                return StoredOffset(earlier), translation
    return stored, position.forward(stored.offset)


def _emit(
    topic: CheckpointTopic,
    positions: Mapping[str, Positions],
    memory: Memory,
    turned: Container[TopicPartition],
) -> Counter[str]:
    """Write the checkpoints that changed; return their number by group.

    :param turned: partitions whose copying began with a turn: there a position that came from the other side
        is the group's, and an older checkpoint is of an earlier log
    """
    changed: list[tuple[TopicPartition, Checkpoint]] = []
    for group, of_group in positions.items():
        emitted = memory.groups[group].emitted
        for tp, p in of_group.items():
            if isinstance(p.found, Unavailable) or (p.on_source.mark is not None and tp not in turned):
                continue
            if emitted.get(tp) != (p.on_source.offset, p.found.offset):
                metadata = p.on_source.metadata if p.on_source.mark is None else ""
                checkpoint = Checkpoint(group, *p.at, p.on_source.offset, p.found.offset, metadata)
                changed.append((tp, checkpoint))
    topic.write(checkpoint for _, checkpoint in changed)
    for tp, checkpoint in changed:
        memory.groups[checkpoint.group].emitted[tp] = (checkpoint.upstream, checkpoint.downstream)
    return Counter(checkpoint.group for _, checkpoint in changed)


_CONNECT_MS = 10_000


class CheckpointTask:
    """Does rounds for shards of one flow; a round that breaks off is reported, not raised."""

    def __init__(self, source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> None:
        self._source, self._target, self._flow = source, target, flow
        self._loop = EventLoop()
        self._memory = Memory()
        self._links: RoundLinks | None = None

    def run(self, shard: Shard) -> ShardReport:
        """Do one round, blocking."""
        try:
            report: ShardReport = self._loop.run(self._round, shard)
        except DrkitError as error:
            self._let_go()
            return ShardReport(shard.number, shard.round, len(shard.groups), error=error.in_short)
        return report

    async def _round(self, shard: Shard) -> ShardReport:
        links = self._links or self._connect(shard.topic)
        self._links = links
        for cluster in (links.source, links.target):
            await cluster.connected()
        return await checkpoint_round(shard, links, self._memory)

    def _connect(self, topic: str) -> RoundLinks:
        source = RawCluster(self._loop, self._source, "checkpoints")
        target = RawCluster(self._loop, self._target, "checkpoints")
        places = PositionReader(target, self._flow.source)
        checkpoints = CheckpointTopic(self._target, topic) if topic else None
        return RoundLinks(source, target, places, checkpoints, Groups(source), Groups(target))

    def _let_go(self) -> None:
        """Close the connections: the next round reconnects and reads the whole map again."""
        if self._links is not None:
            self._links.source.close()
            self._links.target.close()
            if self._links.topic is not None:
                self._links.topic.close()
        self._links = None

    def close(self) -> None:
        """Close the connections."""
        self._let_go()
        self._loop.close()


_tasks: dict[str, tuple[str, CheckpointTask]] = {}


def checkpoint_task(source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> CheckpointTask:
    """Return the flow's task in this process; Spark reuses its Python workers."""
    address = source.model_dump_json() + target.model_dump_json()
    cached = _tasks.get(flow.name)
    if cached is None or cached[0] != address:
        search_seldom()
        if cached is not None:
            cached[1].close()
        cached = _tasks[flow.name] = (address, CheckpointTask(source, target, flow))
    return cached[1]
