"""One checkpoint round for a shard of groups: read, translate, write checkpoints, sync (KIP-382, KIP-545).

Group offsets are read before the partitions are looked at, so that by then the copy has mostly passed them.
One that it has not passed waits; meanwhile the newest one seen before that it has passed is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from drkit.checkpoints.memory import Memory, Remembered
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.checkpoints.sync import GroupPosition, Positions, follow_deleted, sync_groups
from drkit.checkpoints.taken_back import take_back
from drkit.clock import monotonic, wall_ms
from drkit.errors import Failed
from drkit.kafka.groups.requests import Groups, Offsets
from drkit.kafka.raw import RawCluster
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import GuardVerdict, StoredOffset
from drkit.offsets.mm2_records import Checkpoint
from drkit.offsets.translation import PartitionPosition, Translation

_SETTLED: Final = frozenset(
    {
        GuardVerdict.WRITE,
        GuardVerdict.REFRESH,
        GuardVerdict.UNCHANGED,
        GuardVerdict.ECHO,
        GuardVerdict.PROMOTED,
        GuardVerdict.MOVED,
    }
)
_AGAIN: Final = frozenset(verdict.name for verdict in GuardVerdict if verdict not in _SETTLED)
"""Of groups with one of these the next round sees whether it still holds."""


class RoundLinks(NamedTuple):
    """The connections of a round."""

    source: RawCluster
    target: RawCluster
    places: PositionReader
    topic: CheckpointTopic | None
    """Where checkpoints go; None when none are wanted."""
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
    again: set[str] = set()
    positions = await _positions(shard, links, memory, report, again)
    if shard.sync:
        await sync_groups(shard, links.target_groups, links.target.loop, positions, report)
        if shard.gone:
            report.deleted = await follow_deleted(shard, links.target_groups)
    if links.topic is not None:
        try:
            report.forgotten = await take_back(
                shard, links.topic, links.source, links.source_groups, links.target
            )
            changed = _emit(links.topic, positions, memory, shard.known.cuts)
            report.emitted, report.emitted_groups = changed.total(), sorted(changed)
            report.latency_ms = round(1000 * (monotonic() - started))
        except Failed as error:  # the groups' positions are there nevertheless
            report.error = error.in_short
    if not report.error:
        memory.end(shard)
    again |= {group for group, found in report.verdicts_of.items() if not _AGAIN.isdisjoint(found)}
    report.again = sorted(again)
    report.seconds = monotonic() - started
    return report


async def _positions(
    shard: Shard, links: RoundLinks, memory: Memory, report: ShardReport, again: set[str]
) -> dict[str, Positions]:
    """The positions of the shard's groups; adds to `again` the groups that the copy has not fully passed."""
    committed = await _committed(shard, links.source_groups, memory, report)
    for group, offsets in committed.items():
        memory.groups[group].keep(offsets)
    pairs = {at: shard.known.pair(*at) for at in set().union(*committed.values())}
    if not pairs:
        return {}
    places = await links.places.look(pairs.values(), shard.known.producers, links.source)
    out: dict[str, Positions] = {}
    for group, offsets in committed.items():
        remembered, positions = memory.groups[group], out.setdefault(group, {})
        for at, newest in offsets.items():
            place, stored = places[at], StoredOffset(*newest)
            used, found = _newest(remembered, at, stored, place)
            known = place if isinstance(place, PartitionPosition) else None
            positions[at] = GroupPosition(used, pairs[at].target, found, known)
            if (isinstance(found, Unavailable) or used is not stored) and stored.mark is None:
                again.add(group)
    return out


async def _committed(shard: Shard, groups: Groups, memory: Memory, report: ShardReport) -> dict[str, Offsets]:
    """What the groups have committed in copied topics, without those that have nothing new and need not."""
    read = await groups.committed(shard.groups)
    report.unread = {g: a.error for g, a in read.items() if a.value is None}
    topics, out = shard.known.topics, {}
    for group, answer in read.items():
        offsets = {at: c for at, c in (answer.value or {}).items() if at.topic in topics}
        report.positions_of[group] = len(offsets)
        if group in shard.quick and answer.value is not None and offsets == memory.groups[group].offsets:
            report.same.append(group)
        else:
            out[group] = offsets
    report.positions = sum(report.positions_of.values())
    return out


def _newest(
    group: Remembered, at: TopicPartition, stored: StoredOffset, place: PartitionPosition | Unavailable
) -> tuple[StoredOffset, Translation]:
    """The group's offset and its translation; an earlier offset until the copy has passed the newest."""
    seen = group.newest_first(at, stored.offset)
    if isinstance(place, Unavailable):
        return stored, place
    if stored.mark is None and place.waits_for(stored.offset):
        for earlier in seen:
            found = place.forward(earlier)
            if not isinstance(found, Unavailable):
                return StoredOffset(earlier), found
    return stored, place.forward(stored.offset)


def _emit(
    topic: CheckpointTopic,
    positions: Mapping[str, Positions],
    memory: Memory,
    turned: Container[TopicPartition],
) -> Counter[str]:
    """Write the checkpoints that changed; returns how many, by group.

    :param turned: partitions whose copying began with a turn: there a position that came from the other side
        is the group's, and an older checkpoint is of an earlier log
    """
    changed: list[tuple[TopicPartition, Checkpoint]] = []
    for group, of_group in positions.items():
        emitted = memory.groups[group].emitted
        for at, p in of_group.items():
            if isinstance(p.found, Unavailable) or (p.on_source.mark is not None and at not in turned):
                continue
            if emitted.get(at) != (p.on_source.offset, p.found.offset):
                metadata = p.on_source.metadata if p.on_source.mark is None else ""
                found = Checkpoint(group, *p.at, p.on_source.offset, p.found.offset, metadata)
                changed.append((at, found))
    topic.write(found for _, found in changed)
    for at, found in changed:
        memory.groups[found.group].emitted[at] = (found.upstream, found.downstream)
    return Counter(found.group for _, found in changed)
