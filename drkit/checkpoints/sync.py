"""Synchronises group offsets to the target: checked by the guard, written, read back (KIP-545)."""

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
"""Groups per batch of reads and writes."""
_LANES: Final = 3
"""Concurrent batches: drkit works on one while brokers work on another."""
_DECIDED_SECONDS: Final = 5.0
"""How long a read of a group on the target stays valid: a worker that was halted longer must not use it.

It is shorter than a lease, so that no other run has written these groups since the read.
"""


class GroupPosition(NamedTuple):
    """A group's offset on the source and its translation to the target."""

    on_source: StoredOffset
    at: TopicPartition
    """On the target."""
    found: Translation
    place: PartitionPosition | None


Positions = dict[TopicPartition, GroupPosition]
"""Of one group, by partition of the source."""


async def sync_groups(
    shard: Shard, sides: tuple[Groups, Groups], loop: EventLoop, positions: Mapping[str, Positions],
    report: ShardReport,
) -> None:  # fmt: skip
    """Write the groups' offsets on the target in batches; add the results to the report.

    Batches keep the time between the read of a group and its write short: nothing is locked in between.
    """
    names = sorted(group for group, of_group in positions.items() if of_group)
    parts = ({g: positions[g] for g in names[i : i + _TOGETHER]} for i in range(0, len(names), _TOGETHER))
    await loop.some_at_once(lambda part: _sync_batch(shard, sides, part, report), parts, _LANES)


async def _sync_batch(
    shard: Shard, sides: tuple[Groups, Groups], positions_of: Mapping[str, Positions], report: ShardReport
) -> None:
    """Read some groups on the target, write the offsets that the guard allows, and read them back.

    :param sides: of the source and the target
    """
    states, on_target = await sides[1].describe(positions_of), await sides[1].committed(positions_of)
    valid_until = boottime() + _DECIDED_SECONDS
    copies = {target for target, _, _ in shard.known.topics.values()}
    now = wall_ms()
    decided: dict[str, dict[TopicPartition, GuardVerdict]] = {}
    writes: dict[str, dict[TopicPartition, Committed]] = {}
    moved_back, failed = set[str](), dict[str, dict[TopicPartition, str]]()
    for group, positions in positions_of.items():
        state, stored = states[group].value, on_target[group].value
        group_state = None if state is None or stored is None else state.state
        in_copied = in_copies(stored, copies)
        echoes = {p.at for p in positions.values() if p.on_source.mark is not None}
        has_worked = worked(shard.source, (offset for tp, offset in in_copied.items() if tp not in echoes))
        verdicts = decided[group] = {}
        for tp, position in positions.items():
            target_offset = in_copied.get(position.at)
            case = Case(
                source=shard.source,
                on_source=position.on_source,
                position=position.found,
                state=group_state,
                on_target=target_offset,
                worked=has_worked,
                start=position.place.start if position.place else 0,
                end=position.place.end if position.place else -1,
                promoted=position.at.topic in shard.promoted,
                now_ms=now,
                refresh_ms=shard.refresh_ms,
                is_void=shard.known.is_void(tp, target_offset.offset if target_offset is not None else None),
            )
            verdicts[tp] = verdict = judge(case)
            if verdict.is_write:
                writes.setdefault(group, {})[position.at] = Committed(*to_write(case))
                if case.own_mark is not None and (case.own_mark.upstream or 0) > position.on_source.offset:
                    moved_back.add(group)
    # Such a group was reset, or it has committed since this round read it and a failover has moved it.
    for group, current in (await sides[0].committed(sorted(moved_back))).items() if moved_back else ():
        offsets = {tp: committed.offset for tp, committed in (current.value or {}).items()}
        if any(offsets.get(tp) != position.on_source.offset for tp, position in positions_of[group].items()):
            failed[group] = dict.fromkeys(writes.pop(group), "it has committed on the source since")
    failed |= await sides[1].store(writes, valid_until) if writes else {}
    for group, positions in positions_of.items():
        _add_to_report(report, group, positions, decided[group], failed.get(group, {}))


def _add_to_report(
    report: ShardReport,
    group: str,
    positions: Positions,
    decided: Mapping[TopicPartition, GuardVerdict],
    failed: Mapping[TopicPartition, str],
) -> None:
    counts = Counter[GuardVerdict]()
    for tp, position in positions.items():
        error = failed.get(position.at, "")
        verdict = GuardVerdict.NOT_STORED if error else decided[tp]
        counts[verdict] += 1
        if verdict.is_refusal and len(report.refused) < SHOWN:
            reason = error or (position.found.reason if isinstance(position.found, Unavailable) else "")
            report.refused.append((group, str(tp), verdict.name, reason))
    by_name = report.verdicts_of[group] = {verdict.name: count for verdict, count in counts.items()}
    for name, count in by_name.items():
        report.verdicts[name] = report.verdicts.get(name, 0) + count


def in_copies(offsets: Offsets | None, copies: Container[str]) -> dict[TopicPartition, StoredOffset]:
    """Return a group's target offsets in copied topics; empty if the target did not answer."""
    return {tp: StoredOffset(*c) for tp, c in (offsets or {}).items() if tp.topic in copies}


def worked(source: str, stored: Iterable[StoredOffset]) -> bool:
    """Return whether a group has committed by itself in a copied topic.

    :param stored: its offsets in these, without those from which drkit made its offsets on the source
    """
    return not all(offset.is_from(source) for offset in stored)


async def follow_deleted(shard: Shard, groups: Groups, gone: Iterable[str]) -> list[str]:
    """Delete groups that only this flow wrote and that no failover has moved; return the deleted ones.

    :param gone: groups that do not exist on the source
    """
    names = sorted(gone)
    states, on_target = await groups.describe(names), await groups.committed(names)
    until = boottime() + _DECIDED_SECONDS
    doomed = []
    for group in names:
        state, stored = states[group].value, on_target[group].value or {}
        offsets: list[Any] = [StoredOffset(*c) for c in stored.values()]
        has_moved = any(tp.topic in shard.promoted for tp in stored)
        if not has_moved and may_delete(shard.source, state.state if state else None, offsets):
            doomed.append(group)
    return [g for g, error in (await groups.delete(doomed, until)).items() if not error] if doomed else []
