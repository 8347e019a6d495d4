"""One checkpoint round for a shard of groups: read, translate, write checkpoints, sync (KIP-382, KIP-545).

Group offsets are read before the partitions are looked at, so that by then the copy has mostly passed them.
One that it has not passed waits; meanwhile the newest one seen before that it has passed is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.clock import monotonic, wall_ms
from drkit.errors import Failed
from drkit.kafka.groups import Committed, Groups, Offsets
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import Case, Stored, Verdict, judge, may_delete, to_write
from drkit.offsets.mm2_records import Checkpoint
from drkit.offsets.translation import Place, Translation
from drkit.replicate.checkpoint_memory import Memory, Remembered
from drkit.replicate.checkpoint_shard import SHOWN, Shard, ShardReport
from drkit.replicate.checkpoint_topic import CheckpointTopic
from drkit.replicate.places import Places

_TOGETHER: Final = 100
"""Groups that are looked at and written in one go."""
_LANES: Final = 3
"""Such goes at once: while brokers work on one, we work on another."""
_SETTLED: Final = frozenset({Verdict.UNCHANGED, Verdict.ECHO, Verdict.PROMOTED, Verdict.MOVED})
_AGAIN: Final = frozenset(verdict.name for verdict in Verdict if verdict not in _SETTLED)
"""Of groups with one of these the next round sees whether it still holds, and what was written is there."""
Where = tuple[str, TopicPartition]
"""A group and a partition of the source."""


class Links(NamedTuple):
    """The connections of a round."""

    source: RawCluster
    target: RawCluster
    places: Places
    topic: CheckpointTopic | None
    """Where checkpoints go; None when none are wanted."""
    theirs: Groups
    """The source's groups; knows their coordinators from round to round."""
    ours: Groups
    """The target's."""


class _Position(NamedTuple):
    """A group's offset on the source, and where that is on the target."""

    theirs: Stored
    at: TopicPartition
    """On the target."""
    found: Translation
    place: Place | None


async def checkpoint_round(shard: Shard, links: Links, memory: Memory) -> ShardReport:
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
            report.emitted, report.emitted_groups = len(changed), sorted({group for group, _ in changed})
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
    shard: Shard, links: Links, memory: Memory, report: ShardReport, again: set[str]
) -> dict[Where, _Position]:
    """Where every group of the shard reads on; adds those to `again` of which the copy has not passed all."""
    read = await links.theirs.committed(shard.groups)
    report.unread = {g: a.error for g, a in read.items() if a.value is None}
    topics = shard.known.topics
    theirs: dict[Where, Committed] = {
        (group, at): offset
        for group, answer in read.items()
        for at, offset in (answer.value or {}).items()
        if at.topic in topics
    }
    pairs = {at: shard.known.pair(*at) for at in {at for _, at in theirs}}
    places = await links.places.look(pairs.values(), shard.known.producers, links.source)
    out = {}
    standing: dict[str, set[TopicPartition]] = {group: set() for group in shard.groups}
    for (group, at), committed in theirs.items():
        place, stored = places[at], Stored(*committed)
        theirs_now, found = _newest(memory.groups[group], at, stored, place)
        known = place if isinstance(place, Place) else None
        out[group, at] = _Position(theirs_now, pairs[at].target, found, known)
        standing[group].add(at)
        if stored.mark is None and (isinstance(found, Unavailable) or theirs_now.offset != stored.offset):
            again.add(group)
    report.positions = len(out)
    for group, partitions in standing.items():
        report.positions_of[group] = len(partitions)
        memory.groups[group].keep(partitions)
    return out


def _newest(
    group: Remembered, at: TopicPartition, theirs: Stored, place: Place | Unavailable
) -> tuple[Stored, Translation]:
    """The group's offset and its place; an earlier offset while the copy has not passed the newest."""
    seen = group.newest_first(at, theirs.offset)
    if isinstance(place, Unavailable):
        return theirs, place
    if theirs.mark is None and place.waits_for(theirs.offset):
        for earlier in seen:
            found = place.forward(earlier)
            if not isinstance(found, Unavailable):
                return Stored(earlier), found
    return theirs, place.forward(theirs.offset)


def _emit(topic: CheckpointTopic, positions: Mapping[Where, _Position], memory: Memory) -> list[Where]:
    """Write the checkpoints that changed; returns which."""
    changed: dict[Where, Checkpoint] = {}
    for (group, at), p in positions.items():
        if isinstance(p.found, Unavailable) or p.theirs.mark is not None:
            continue
        if memory.groups[group].emitted.get(at) != (p.theirs.offset, p.found.offset):
            changed[group, at] = Checkpoint(group, *p.at, p.theirs.offset, p.found.offset, p.theirs.metadata)
    topic.write(changed.values())
    for (group, at), c in changed.items():
        memory.groups[group].emitted[at] = (c.upstream, c.downstream)
    return list(changed)


async def _sync(
    shard: Shard, links: Links, positions: Mapping[Where, _Position], report: ShardReport
) -> None:
    """Write the groups' offsets on the target, some groups at a time; tell what became of them.

    Some at a time: between the look at a group and the write nothing of it is locked, so that time is short.
    """
    mine: dict[str, dict[Where, _Position]] = {}
    for where, position in positions.items():
        mine.setdefault(where[0], {})[where] = position
    names = sorted(mine)
    some = [names[i : i + _TOGETHER] for i in range(0, len(names), _TOGETHER)]

    async def lane(first: int) -> None:
        for group_names in some[first::_LANES]:
            await _sync_some(shard, links.ours, {g: mine[g] for g in group_names}, report)

    for running in [links.target.loop.spawn(lane, first) for first in range(min(_LANES, len(some)))]:
        await running


async def _sync_some(
    shard: Shard, groups: Groups, mine: Mapping[str, Mapping[Where, _Position]], report: ShardReport
) -> None:
    """Look at some groups on the target, write what the table allows, and read it back."""
    states, there = await groups.describe(mine), await groups.committed(mine)
    copies = {target for target, _, _ in shard.known.topics.values()}
    now = wall_ms()
    decided: dict[Where, Verdict] = {}
    writes: dict[str, dict[TopicPartition, Committed]] = {}
    for group, positions in mine.items():
        state, stored = states[group].value, there[group].value
        told = None if state is None or stored is None else state.state
        has_worked = worked(shard.source, stored or {}, copies)
        for where, p in positions.items():
            kept = (stored or {}).get(p.at)
            case = Case(
                shard.source, p.theirs, p.found, told,
                Stored(*kept) if kept is not None else None, has_worked,
                p.place.start if p.place else 0, p.place.end if p.place else -1,
                p.at.topic in shard.promoted, now, shard.refresh_ms,
            )  # fmt: skip
            decided[where] = verdict = judge(case)
            if verdict.is_write:
                writes.setdefault(group, {})[p.at] = Committed(*to_write(case))
    failed = await _write(groups, writes)
    for positions in mine.values():
        for where, p in positions.items():
            if why := failed.get((where[0], p.at), ""):
                decided[where] = Verdict.NOT_STORED
            _count(report, where, decided[where], why, p.found)


def _count(report: ShardReport, where: Where, verdict: Verdict, why: str, found: Translation) -> None:
    for counts in (report.verdicts, report.verdicts_of.setdefault(where[0], {})):
        counts[verdict.name] = counts.get(verdict.name, 0) + 1
    if verdict.is_refusal and len(report.refused) < SHOWN:
        reason = why or (found.reason if isinstance(found, Unavailable) else "")
        report.refused.append((where[0], str(where[1]), verdict.name, reason))


def worked(source: str, stored: Offsets, copies: Iterable[str]) -> bool:
    """Whether a group has committed by itself in one of the copied topics."""
    marks = [Stored(*c).mark for at, c in stored.items() if at.topic in copies]
    return any(m is None or m.source != source for m in marks)


async def _write(
    groups: Groups, writes: Mapping[str, Mapping[TopicPartition, Committed]]
) -> dict[Where, str]:
    """Write and read back; returns what of it does not stand on the target, and why."""
    if not writes:
        return {}
    answers = await groups.alter(writes)
    stored = await groups.committed(writes)
    failed: dict[Where, str] = {}
    for group, wanted in writes.items():
        codes = answers[group].value or {}
        for at, offset in wanted.items():
            code = codes.get(at, answers[group].error)
            if code:
                failed[group, at] = f"Kafka error code {code}"
            elif (stored[group].value or {}).get(at) != offset:
                failed[group, at] = f"read back: {(stored[group].value or {}).get(at)}"
    return failed


async def _follow_deleted(shard: Shard, groups: Groups) -> list[str]:
    """Delete the groups that are gone from the source, where nobody but this flow made them."""
    states, there = await groups.describe(shard.gone), await groups.committed(shard.gone)
    doomed = []
    for group in shard.gone:
        state, stored = states[group].value, there[group].value
        kept: list[Any] = [Stored(*c) for c in (stored or {}).values()]
        if may_delete(shard.source, state.state if state else None, kept):
            doomed.append(group)
    if not doomed:
        return []
    return [g for g, error in (await groups.delete(doomed)).items() if not error]
