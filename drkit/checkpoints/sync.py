"""The positions of groups on the target: decided by the guard, written, read back (KIP-545)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.checkpoints.shard import SHOWN, Shard, ShardReport
from drkit.clock import boottime, wall_ms
from drkit.kafka.groups.requests import Committed, Groups, Offsets
from drkit.kafka.raw import EventLoop
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import Case, GuardVerdict, StoredOffset, judge, may_delete, to_write
from drkit.offsets.translation import PartitionPosition, Translation

_TOGETHER: Final = 100
"""Groups that are looked at and written in one go."""
_LANES: Final = 3
"""Such batches of groups at once: while brokers work on one, drkit works on another."""
_DECIDED_SECONDS: Final = 5.0
"""How long a look at a group on the target stays good: a worker that was halted longer must not use it.

Less than a lease lasts, so that no other run has written these groups since the look.
"""


class GroupPosition(NamedTuple):
    """A group's offset on the source, and where that is on the target."""

    on_source: StoredOffset
    at: TopicPartition
    """On the target."""
    found: Translation
    place: PartitionPosition | None


Positions = dict[TopicPartition, GroupPosition]
"""Of one group, by partition of the source."""


async def sync_groups(
    shard: Shard, both: tuple[Groups, Groups], loop: EventLoop, positions: Mapping[str, Positions],
    report: ShardReport,
) -> None:  # fmt: skip
    """Write the groups' offsets on the target, some groups at a time; the report receives the results.

    Some at a time: nothing is locked between the look at a group and the write, so that time must be short.
    """
    names = sorted(group for group, of_group in positions.items() if of_group)
    parts = ({g: positions[g] for g in names[i : i + _TOGETHER]} for i in range(0, len(names), _TOGETHER))
    await loop.some_at_once(lambda part: _sync_some(shard, both, part, report), parts, _LANES)


async def _sync_some(
    shard: Shard, both: tuple[Groups, Groups], mine: Mapping[str, Positions], report: ShardReport
) -> None:
    """Look at some groups on the target, write what the table allows, and read it back.

    :param both: of the source and the target
    """
    states, on_target = await both[1].describe(mine), await both[1].committed(mine)
    until = boottime() + _DECIDED_SECONDS
    copies = {target for target, _, _ in shard.known.topics.values()}
    now = wall_ms()
    decided: dict[str, dict[TopicPartition, GuardVerdict]] = {}
    writes: dict[str, dict[TopicPartition, Committed]] = {}
    back, failed = set[str](), dict[str, dict[TopicPartition, str]]()
    for group, positions in mine.items():
        state, stored = states[group].value, on_target[group].value
        told = None if state is None or stored is None else state.state
        kept = in_copies(stored, copies)
        echoes = {p.at for p in positions.values() if p.on_source.mark is not None}
        has_worked = worked(shard.source, (own for at, own in kept.items() if at not in echoes))
        verdicts = decided[group] = {}
        for at, p in positions.items():
            own = kept.get(p.at)
            case = Case(
                source=shard.source,
                on_source=p.on_source,
                position=p.found,
                state=told,
                on_target=own,
                worked=has_worked,
                start=p.place.start if p.place else 0,
                end=p.place.end if p.place else -1,
                promoted=p.at.topic in shard.promoted,
                now_ms=now,
                refresh_ms=shard.refresh_ms,
                is_void=shard.known.is_void(at, own.offset if own is not None else None),
            )
            verdicts[at] = verdict = judge(case)
            if verdict.is_write:
                writes.setdefault(group, {})[p.at] = Committed(*to_write(case))
                if case.own_mark is not None and (case.own_mark.upstream or 0) > p.on_source.offset:
                    back.add(group)
    # Such a group was reset, or it has gone on since this round read it, and a failover has moved it.
    for group, now_there in (await both[0].committed(sorted(back))).items() if back else ():
        offsets = {at: committed.offset for at, committed in (now_there.value or {}).items()}
        if any(offsets.get(at) != p.on_source.offset for at, p in mine[group].items()):
            failed[group] = dict.fromkeys(writes.pop(group), "it has committed on the source since")
    failed |= await both[1].store(writes, until) if writes else {}
    for group, positions in mine.items():
        _count(report, group, positions, decided[group], failed.get(group, {}))


def _count(
    report: ShardReport,
    group: str,
    positions: Positions,
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
    """Those of a group's offsets on the target that are in copied topics; empty where it did not answer."""
    return {at: StoredOffset(*c) for at, c in (offsets or {}).items() if at.topic in copies}


def worked(source: str, stored: Iterable[StoredOffset]) -> bool:
    """Whether a group has committed by itself in one of the copied topics.

    :param stored: its offsets in these, without those from which drkit made its offsets on the source
    """
    return not all(offset.is_from(source) for offset in stored)


async def follow_deleted(shard: Shard, groups: Groups, gone: Iterable[str]) -> list[str]:
    """Delete groups where only this flow wrote them, and no failover has moved them; return these.

    :param gone: groups that do not exist on the source
    """
    names = sorted(gone)
    states, on_target = await groups.describe(names), await groups.committed(names)
    until = boottime() + _DECIDED_SECONDS
    doomed = []
    for group in names:
        state, stored = states[group].value, on_target[group].value or {}
        kept: list[Any] = [StoredOffset(*c) for c in stored.values()]
        has_moved = any(at.topic in shard.promoted for at in stored)
        if not has_moved and may_delete(shard.source, state.state if state else None, kept):
            doomed.append(group)
    return [g for g, error in (await groups.delete(doomed, until)).items() if not error] if doomed else []
