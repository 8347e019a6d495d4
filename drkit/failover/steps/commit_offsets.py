"""COMMIT_OFFSETS: writes the groups' committed offsets on the target, guarded, and reads them back.

The table that guards checkpoint rounds decides here too (`drkit.offsets.group_guard`). A group with members,
or one that committed on the target by itself, is not moved without request. Offsets are within the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from drkit.counted import counted, verb
from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.groups.eviction import evict_members
from drkit.failover.groups.look import TargetGroup, on_target, partition_of
from drkit.failover.groups.writes import Writes, restore, write
from drkit.flow_state.returns import begun_by_turn
from drkit.model import TopicPartition
from drkit.next_command import translate_group
from drkit.offsets.group_guard import Case, GuardVerdict, StoredOffset, judge, to_write
from drkit.offsets.translation import Exact

_AT_ONCE: Final = 250
"""Maximum number of groups in one effect."""
_NEVER_MS: Final = 1 << 62
_SHOWN: Final = 5
_FINE: Final = frozenset({GuardVerdict.UNCHANGED, GuardVerdict.ECHO})


class CommitOffsetsStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.COMMIT_OFFSETS

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        target_groups = context.run(on_target, context.target, context.scope.groups)
        effects = []
        for group, found in sorted(target_groups.items()):
            kept = sum(s.mark is not None for s in found.stored.values())
            why = f"{counted(kept, 'position')} by drkit already {verb(kept, 'exists')}"
            if found.members:
                why = f"{counted(len(found.members), 'member')}: {', '.join(found.members[:_SHOWN])}"
            effects.append(StepEffect(f"commit offsets for {group}", context.flow.target, why))
        return effects

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: a group has members on the target, or has committed there by itself
        :raises Failed: the target did not store an offset
        """
        positions = context.result(StepName.TRANSLATE)["positions"]
        groups = sorted(positions)
        if context.request.evict_members:
            evict_members(context, self.name, context.target, groups)
        target_groups: dict[str, TargetGroup] = context.run(on_target, context.target, groups)
        verdicts, writes = _decided(context, target_groups)
        for part in _parts(writes):
            before = {g: _before(target_groups[g], part[g]) for g in part}
            with context.effect(self.name, f"groups from {min(part)}", before=before) as outcome:
                failed: dict[str, dict[TopicPartition, str]] = context.run(write, context.target, part)
                outcome["failed"] = {g: [str(at) for at in p] for g, p in failed.items()}
            if failed:
                raise _not_stored(context, failed)
            context.tell(
                StepProgress(self.name, f"{counted(len(part), 'group')} committed", {"last": max(part)})
            )
        by_verdict = Counter(v.name for p in verdicts.values() for v in p.values())
        kept = sorted(g for g, p in verdicts.items() if GuardVerdict.MOVED in p.values())
        moved = [g for g in groups if g not in kept]
        notes = [f"offsets of {counted(len(moved), 'group')} committed on {context.flow.target}"]
        notes += [f"{g} has worked on the target and stays where it is there" for g in kept]
        return StepResult({"groups": moved, "kept": kept, "verdicts": dict(by_verdict)}, tuple(notes))

    def prove(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`: the target stores the translated offsets.

        :raises Failed: it stores others
        """
        positions = context.result(StepName.TRANSLATE)["positions"]
        target_groups: dict[str, TargetGroup] = context.run(on_target, context.target, sorted(positions))
        topics = set(context.scope.topics.values())
        read_back, wrong = 0, []
        for group, partitions in positions.items():
            found = target_groups[group]
            if _own_work(context, found, partitions, topics):
                continue  # the group committed by itself, so its offsets were not written
            for target, (upstream, downstream, *mark) in partitions.items():
                stored = found.stored.get(partition_of(target))
                came_from = StoredOffset(upstream, mark[0]).mark if mark else None
                least = came_from.upstream if came_from is not None else downstream
                if stored is not None and (stored.offset == downstream or (mark and stored.offset >= least)):
                    read_back += 1
                else:
                    is_there = stored.offset if stored is not None else None
                    wrong.append(f"group {group}, {target}: {is_there}, not {downstream}")
        if wrong:
            raise Failed("positions_differ", where=context.flow.target, evidence="; ".join(wrong[:_SHOWN]))
        return StepResult({"read_back": read_back})

    def undo(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`: restores earlier offsets, if no group has committed."""
        restored = 0
        for name, told in context.effects(self.name).items():
            before = told["intent"].get("before")
            if before is None:
                continue  # an eviction: members rejoin by themselves
            restored += context.run(restore, context.target, context.flow.source, before)
            context.tell(StepProgress(self.name, f"{name}: rolled back"))
        return StepResult({"restored": restored})


def _decided(
    context: Context, target_groups: Mapping[str, TargetGroup]
) -> tuple[dict[str, dict[TopicPartition, GuardVerdict]], Writes]:
    """Return the verdict on each position, and the offsets to write.

    :raises DrkitError: a verdict does not allow the write
    """
    topics = set(context.scope.topics.values())
    verdicts: dict[str, dict[TopicPartition, GuardVerdict]] = {}
    writes: Writes = {}
    for group, found in target_groups.items():
        positions = context.result(StepName.TRANSLATE)["positions"][group]
        worked = bool(_own_work(context, found, positions, topics))
        may_keep = context.request.keep_positions and not _is_in_return(context, group)
        for at, case in _cases(context, group, found, worked=worked):
            verdict = judge(case)
            verdicts.setdefault(group, {})[at] = verdict
            if verdict.is_write:
                writes.setdefault(group, {})[at] = to_write(case)
            elif not (verdict in _FINE or (verdict is GuardVerdict.MOVED and may_keep)):
                raise _refusal(context, group, at, verdict, found)
    return verdicts, writes


def _own_work(
    context: Context, found: TargetGroup, positions: Mapping[str, Any], topics: Collection[str]
) -> list[TopicPartition]:
    """Partitions in which the group committed on the target by itself, after it had left for the source."""
    echoes = {partition_of(target) for target, (_, _, *mark) in positions.items() if mark}
    return [at for at in found.own_work(context.flow.source, topics) if at not in echoes]


def _cases(
    context: Context, group: str, found: TargetGroup, *, worked: bool
) -> Iterator[tuple[TopicPartition, Case]]:
    translated, now, known = context.result(StepName.TRANSLATE), context.wall(), context.known
    for target, (upstream, downstream, *mark) in translated["positions"][group].items():
        at = partition_of(target)
        own = found.stored.get(at)
        copied = TopicPartition(known.upstream.get(at.topic, ""), at.partition)
        case = Case(
            source=context.flow.source,
            on_source=StoredOffset(upstream, mark[0] if mark else ""),
            position=Exact(downstream),
            state=found.state,
            on_target=own,
            worked=worked,
            start=translated["starts"][target],
            end=translated["ends"][target],
            promoted=False,
            now_ms=now,
            refresh_ms=_NEVER_MS,
            is_void=known.is_void(copied, own.offset if own is not None else None),
        )
        yield at, case


def _is_in_return(context: Context, group: str) -> bool:
    """Whether a group has a position in a topic whose copying began with a turn."""
    topics = {partition_of(at).topic for at in context.result(StepName.TRANSLATE)["positions"][group]}
    return not topics.isdisjoint(begun_by_turn(context.state.records))


def _parts(writes: Writes) -> Iterator[Writes]:
    names = sorted(writes)
    for i in range(0, len(names), _AT_ONCE):
        yield {g: writes[g] for g in names[i : i + _AT_ONCE]}


def _before(group: TargetGroup, wanted: Mapping[TopicPartition, StoredOffset]) -> dict[str, list[Any] | None]:
    found = {at: group.stored.get(at) for at in wanted}
    return {str(at): None if s is None else [s.offset, s.metadata] for at, s in found.items()}


def _not_stored(context: Context, failed: Mapping[str, Mapping[TopicPartition, str]]) -> Failed:
    shown = [f"group {g}, {at}: {why}" for g, p in sorted(failed.items()) for at, why in sorted(p.items())]
    return Failed("positions_not_stored", where=context.flow.target, evidence="; ".join(shown[:_SHOWN]))


def _refusal(
    context: Context, group: str, at: TopicPartition, verdict: GuardVerdict, found: TargetGroup
) -> Refused | Failed:
    where = f"group {group} on {context.flow.target}, {at}"
    if verdict is GuardVerdict.LIVE:
        return Refused(
            "members_on_target",
            where=where,
            evidence=", ".join(found.members[:_SHOWN]) or f"state {found.state}",
            hint="stop these consumers, then: drkit failover --resume; or remove them: drkit"
            " failover --resume --evict-members",
            group=group,
        )
    if verdict is GuardVerdict.MOVED and _is_in_return(context, group):
        return Refused(
            "group_on_old_side",
            where=where,
            evidence=f"at {found.stored[at].offset}" if at in found.stored else "in another partition",
            hint="stop that consumer, delete these offsets on the target, then: drkit failover --resume; left"
            " where it is, the group would repeat or skip records",
            group=group,
        )
    if verdict is GuardVerdict.MOVED:
        return Refused(
            "group_worked_on_target",
            where=where,
            evidence=f"at {found.stored[at].offset}" if at in found.stored else "in another partition",
            hint="delete these offsets on the target, then: drkit failover --resume; or leave the group"
            " where it is: drkit failover --resume --keep-positions",
            group=group,
        )
    return Failed(
        "position_not_written",
        where=where,
        evidence=f"state {found.state}, {found.stored.get(at)}",
        group=group,
        verdict=verdict.value,
        translate_group=translate_group(group),
    )
