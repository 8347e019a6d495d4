"""One checkpoint round for a shard of groups: read, translate, write checkpoints, sync (KIP-382, KIP-545).

Group offsets are read before the partitions are looked at, so that by then the copy has mostly passed them.
One that it has not passed waits; meanwhile the newest one seen before that it has passed is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.checkpoints.memory import Memory, Remembered
from drkit.checkpoints.shard import SHOWN, Shard, ShardReport
from drkit.clock import boottime, monotonic, wall_ms
from drkit.errors import Failed
from drkit.kafka.groups.asking import TOO_LATE
from drkit.kafka.groups.requests import Committed, Groups, Offsets
from drkit.kafka.raw import RawCluster
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import Case, GuardVerdict, StoredOffset, judge, may_delete, to_write
from drkit.offsets.mm2_records import Checkpoint
from drkit.offsets.translation import PartitionPosition, Translation

_TOGETHER: Final = 100
"""Groups that are looked at and written in one go."""
_LANES: Final = 3
"""Such goes at once: while brokers work on one, we work on another."""
_DECIDED_SECONDS: Final = 5.0
"""How long a look at a group on the target stays good: a worker that stood still longer must not go by it.

Less than a lease lasts, so that no other run has written these groups since the look.
"""
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
    theirs: Groups
    """The source's groups; knows their coordinators from round to round."""
    ours: Groups
    """The target's."""


class _Position(NamedTuple):
    """A group's offset on the source, and where that is on the target."""

    theirs: StoredOffset
    at: TopicPartition
    """On the target."""
    found: Translation
    place: PartitionPosition | None


_Positions = dict[TopicPartition, _Position]
"""Of one group, by partition of the source."""


async def checkpoint_round(shard: Shard, links: RoundLinks, memory: Memory) -> ShardReport:
    """Do one round.

    :raises RawError: a cluster stopped answering; the next round begins anew
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
        await _sync(shard, links, positions, report)
        if shard.gone:
            report.deleted = await _follow_deleted(shard, links.ours)
    if links.topic is not None:
        try:
            changed = _emit(links.topic, positions, memory)
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
) -> dict[str, _Positions]:
    """Where the groups of the shard read on; adds those to `again` of which the copy has not passed all."""
    theirs = await _committed(shard, links.theirs, memory, report)
    for group, offsets in theirs.items():
        memory.groups[group].keep(offsets)
    pairs = {at: shard.known.pair(*at) for at in set().union(*theirs.values())}
    if not pairs:
        return {}
    places = await links.places.look(pairs.values(), shard.known.producers, links.source)
    out: dict[str, _Positions] = {}
    for group, offsets in theirs.items():
        remembered, positions = memory.groups[group], out.setdefault(group, {})
        for at, committed in offsets.items():
            place, stored = places[at], StoredOffset(*committed)
            theirs_now, found = _newest(remembered, at, stored, place)
            known = place if isinstance(place, PartitionPosition) else None
            positions[at] = _Position(theirs_now, pairs[at].target, found, known)
            if (isinstance(found, Unavailable) or theirs_now is not stored) and stored.mark is None:
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
    group: Remembered, at: TopicPartition, theirs: StoredOffset, place: PartitionPosition | Unavailable
) -> tuple[StoredOffset, Translation]:
    """The group's offset and its place; an earlier offset while the copy has not passed the newest."""
    seen = group.newest_first(at, theirs.offset)
    if isinstance(place, Unavailable):
        return theirs, place
    if theirs.mark is None and place.waits_for(theirs.offset):
        for earlier in seen:
            found = place.forward(earlier)
            if not isinstance(found, Unavailable):
                return StoredOffset(earlier), found
    return theirs, place.forward(theirs.offset)


def _emit(topic: CheckpointTopic, positions: Mapping[str, _Positions], memory: Memory) -> Counter[str]:
    """Write the checkpoints that changed; returns how many, by group."""
    changed: list[tuple[TopicPartition, Checkpoint]] = []
    for group, of_group in positions.items():
        emitted = memory.groups[group].emitted
        for at, p in of_group.items():
            if isinstance(p.found, Unavailable) or p.theirs.mark is not None:
                continue
            if emitted.get(at) != (p.theirs.offset, p.found.offset):
                found = Checkpoint(group, *p.at, p.theirs.offset, p.found.offset, p.theirs.metadata)
                changed.append((at, found))
    topic.write(found for _, found in changed)
    for at, found in changed:
        memory.groups[found.group].emitted[at] = (found.upstream, found.downstream)
    return Counter(found.group for _, found in changed)


async def _sync(
    shard: Shard, links: RoundLinks, positions: Mapping[str, _Positions], report: ShardReport
) -> None:
    """Write the groups' offsets on the target, some groups at a time; tell what became of them.

    Some at a time: between the look at a group and the write nothing of it is locked, so that time is short.
    """
    names = sorted(group for group, of_group in positions.items() if of_group)
    some = [names[i : i + _TOGETHER] for i in range(0, len(names), _TOGETHER)]

    async def lane(first: int) -> None:
        for group_names in some[first::_LANES]:
            await _sync_some(shard, links.ours, {g: positions[g] for g in group_names}, report)

    for running in [links.target.loop.spawn(lane, first) for first in range(min(_LANES, len(some)))]:
        await running


async def _sync_some(
    shard: Shard, groups: Groups, mine: Mapping[str, _Positions], report: ShardReport
) -> None:
    """Look at some groups on the target, write what the table allows, and read it back."""
    states, there = await groups.describe(mine), await groups.committed(mine)
    until = boottime() + _DECIDED_SECONDS
    copies = {target for target, _, _ in shard.known.topics.values()}
    now = wall_ms()
    decided: dict[str, dict[TopicPartition, GuardVerdict]] = {}
    writes: dict[str, dict[TopicPartition, Committed]] = {}
    for group, positions in mine.items():
        state, stored = states[group].value, there[group].value
        told = None if state is None or stored is None else state.state
        kept = in_copies(stored, copies)
        has_worked = worked(shard.source, kept.values())
        verdicts = decided[group] = {}
        for at, p in positions.items():
            case = Case(
                source=shard.source,
                theirs=p.theirs,
                position=p.found,
                state=told,
                there=kept.get(p.at),
                worked=has_worked,
                start=p.place.start if p.place else 0,
                end=p.place.end if p.place else -1,
                promoted=p.at.topic in shard.promoted,
                now_ms=now,
                refresh_ms=shard.refresh_ms,
            )
            verdicts[at] = verdict = judge(case)
            if verdict.is_write:
                writes.setdefault(group, {})[p.at] = Committed(*to_write(case))
    failed = await _write(groups, writes, until)
    for group, positions in mine.items():
        _count(report, group, positions, decided[group], failed.get(group, {}))


def _count(
    report: ShardReport,
    group: str,
    positions: _Positions,
    decided: Mapping[TopicPartition, GuardVerdict],
    failed: Mapping[TopicPartition, str],
) -> None:
    """Add one group to the report."""
    counts = Counter[GuardVerdict]()
    for at, p in positions.items():
        why = failed.get(p.at, "")
        verdict = GuardVerdict.NOT_STORED if why else decided[at]
        counts[verdict] += 1
        if verdict.is_refusal and len(report.refused) < SHOWN:
            reason = why or (p.found.reason if isinstance(p.found, Unavailable) else "")
            report.refused.append((group, str(at), verdict.name, reason))
    by_name = report.verdicts_of[group] = {verdict.name: count for verdict, count in counts.items()}
    for name, count in by_name.items():
        report.verdicts[name] = report.verdicts.get(name, 0) + count


def in_copies(offsets: Offsets | None, copies: Container[str]) -> dict[TopicPartition, StoredOffset]:
    """Those of a group's offsets on the target that are in copied topics; none where it did not tell."""
    return {at: StoredOffset(*c) for at, c in (offsets or {}).items() if at.topic in copies}


def worked(source: str, stored: Iterable[StoredOffset]) -> bool:
    """Whether a group has committed by itself in one of the copied topics.

    :param stored: its offsets in these
    """
    marks = (offset.mark for offset in stored)
    return any(mark is None or mark.source != source for mark in marks)


async def _write(
    groups: Groups, writes: Mapping[str, Mapping[TopicPartition, Committed]], until: float
) -> dict[str, dict[TopicPartition, str]]:
    """Write and read back; returns what of it does not stand on the target, and why, by group."""
    if not writes:
        return {}
    answers = await groups.alter(writes, until)
    stored = await groups.committed(writes)
    failed: dict[str, dict[TopicPartition, str]] = {}
    for group, wanted in writes.items():
        codes, there = answers[group].value or {}, stored[group].value or {}
        for at, offset in wanted.items():
            if code := codes.get(at, answers[group].error):
                failed.setdefault(group, {})[at] = _reason(code)
            elif there.get(at) != offset:
                failed.setdefault(group, {})[at] = f"read back: {there.get(at)}"
    return failed


def _reason(code: int) -> str:
    return "not sent: the look at the group is too old" if code == TOO_LATE else f"Kafka error code {code}"


async def _follow_deleted(shard: Shard, groups: Groups) -> list[str]:
    """Delete the groups that are gone from the source, where nobody but this flow made them."""
    states, there = await groups.describe(shard.gone), await groups.committed(shard.gone)
    until = boottime() + _DECIDED_SECONDS
    doomed = []
    for group in shard.gone:
        state, stored = states[group].value, there[group].value
        kept: list[Any] = [StoredOffset(*c) for c in (stored or {}).values()]
        if may_delete(shard.source, state.state if state else None, kept):
            doomed.append(group)
    if not doomed:
        return []
    return [g for g, error in (await groups.delete(doomed, until)).items() if not error]
