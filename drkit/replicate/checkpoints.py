"""One checkpoint round for a shard of groups: read, translate, write checkpoints, sync (KIP-382, KIP-545).

Group offsets are read before the partitions are looked at, so that by then the copy has mostly passed them.
One that it has not passed waits; meanwhile the newest one seen before that it has passed is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
from drkit.replicate.checkpoint_shard import Shard, ShardReport
from drkit.replicate.checkpoint_topic import CheckpointTopic
from drkit.replicate.places import Places

_REMEMBERED: Final = 4
"""Offsets of a group that were seen in earlier rounds."""
_SHOWN: Final = 50
"""Refusals told by name; all are counted."""
_TOGETHER: Final = 100
"""Groups that are looked at and written in one go."""
_LANES: Final = 3
"""Such goes at once: while brokers work on one, we work on another."""
Where = tuple[str, TopicPartition]
"""A group and a partition of the source."""


@dataclass(slots=True)
class Memory:
    """What a worker process keeps of a shard between rounds; losing it costs nothing but work."""

    seen: dict[Where, deque[int]] = field(default_factory=dict)
    emitted: dict[Where, tuple[int, int]] = field(default_factory=dict)
    topic_id: str = ""
    """Id of the topic into which these were emitted."""
    synced_at: float = -1e9


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
    if memory.topic_id != shard.topic_id:
        memory.topic_id, memory.emitted = shard.topic_id, {}
    report = ShardReport(shard.number, groups=len(shard.groups), started_ms=wall_ms())
    positions = await _positions(shard, links, memory, report)
    if shard.sync_seconds is not None and started - memory.synced_at >= shard.sync_seconds:
        memory.synced_at = started
        await _sync(shard, links, positions, report)
        if shard.gone:
            report.deleted = await _follow_deleted(shard, links.ours)
    if links.topic is not None:
        try:
            changed = _emit(links.topic, positions, memory)
            report.emitted, report.emitted_groups = len(changed), sorted({group for group, _ in changed})
            report.latency_ms = round(1000 * (monotonic() - started))
        except Failed as error:  # the groups' positions are there nevertheless
            report.error = f"{error.what}: {error.evidence}"
    report.seconds = monotonic() - started
    return report


async def _positions(
    shard: Shard, links: Links, memory: Memory, report: ShardReport
) -> dict[Where, _Position]:
    """Where every group of the shard reads on."""
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
    for (group, at), committed in theirs.items():
        place = places[at]
        theirs_now, found = _newest(memory, (group, at), Stored(*committed), place)
        known = place if isinstance(place, Place) else None
        out[group, at] = _Position(theirs_now, pairs[at].target, found, known)
    report.positions = len(out)
    for where in memory.seen.keys() - out.keys():
        del memory.seen[where]
        memory.emitted.pop(where, None)
    return out


def _newest(
    memory: Memory, where: Where, theirs: Stored, place: Place | Unavailable
) -> tuple[Stored, Translation]:
    """The group's offset and its place; an earlier offset while the copy has not passed the newest."""
    seen = memory.seen.get(where)
    if seen is None:
        seen = memory.seen[where] = deque(maxlen=_REMEMBERED)
    if seen and theirs.offset < seen[-1]:
        seen.clear()  # the group went back: what was seen before is no longer its work
    if not seen or seen[-1] != theirs.offset:
        seen.append(theirs.offset)
    if isinstance(place, Unavailable):
        return theirs, place
    if theirs.mark is None and place.waits_for(theirs.offset):
        for earlier in reversed(seen):
            found = place.forward(earlier)
            if not isinstance(found, Unavailable):
                return Stored(earlier), found
    return theirs, place.forward(theirs.offset)


def _emit(topic: CheckpointTopic, positions: Mapping[Where, _Position], memory: Memory) -> list[Where]:
    """Write the checkpoints that changed; returns which."""
    changed: dict[Where, Checkpoint] = {}
    for where, p in positions.items():
        if isinstance(p.found, Unavailable) or p.theirs.mark is not None:
            continue
        if memory.emitted.get(where) != (p.theirs.offset, p.found.offset):
            changed[where] = Checkpoint(where[0], *p.at, p.theirs.offset, p.found.offset, p.theirs.metadata)
    topic.write(changed.values())
    memory.emitted.update({w: (c.upstream, c.downstream) for w, c in changed.items()})
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
    report.verdicts[verdict.name] = report.verdicts.get(verdict.name, 0) + 1
    if verdict.is_refusal and len(report.refused) < _SHOWN:
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
