"""TRANSLATE and COMMIT_OFFSETS: translate each group's offsets exactly, prove them, and commit them.

The table that guards checkpoint rounds decides on each commit too (`drkit.offsets.group_guard`). A group with
members, or one that committed on the target by itself, is not moved without request. Offsets are within the
log, and are read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from drkit.counted import counted, first_of, verb
from drkit.errors import Failed, Refused
from drkit.failover.checks.late_groups import late_notes, look_late
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.context import Context, StepProgress, asked
from drkit.failover.core.step import LossEvidence, Step, StepEffect, StepResult
from drkit.failover.groups.offsets import (
    RESUMED,
    Positions,
    TargetGroup,
    ask_target,
    evict_members,
    from_target,
    members_remain,
    no_position,
    on_target,
    partition_of,
    restore,
    write,
)
from drkit.failover.groups.waits import settle
from drkit.failover.loss.count import begins_later, evidence_of, lost_partitions
from drkit.failover.loss.positions import NO_PARTITION, bounds_of, refuse_changed, scope_positions
from drkit.journal.machine import StepName
from drkit.kafka.groups.asking import brokers_away
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.next_command import translate_group
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import Case, GuardVerdict, StoredOffset, judge, to_write
from drkit.offsets.translation import Exact, PartitionPosition
from drkit.pair.promotions import begun_by_turn


class TranslateStep(Step):
    """TRANSLATE: finds the exact target offset of each group and partition."""

    name = StepName.TRANSLATE

    def plan(self, context: Context) -> list[StepEffect]:
        """Return what the current offsets translate to; the copy continues until FREEZE."""
        translated = self._translate(context, context.source(), act=False)
        where = f"{context.flow.source} → {context.flow.target}"
        exact = [
            StepEffect(
                f"group {group}: {first_of(f'{tp} {p[0]} → {p[1]}' for tp, p in sorted(partitions.items()))}",
                where,
                "as of now",
            )
            for group, partitions in sorted(translated["positions"].items())
        ]
        unavailable = [
            StepEffect(f"group {group}: no exact position in {partition}", where, reason)
            for inexact in (translated["unavailable"], translated["skipping"])
            for group, partitions in sorted(inexact.items())
            for partition, reason in sorted(partitions.items())
        ]
        return exact + unavailable

    def run(self, context: Context) -> StepResult:
        translated = asked(context, lambda source: self._translate(context, source, act=True))
        _refuse_incomplete(context, translated["loss"])
        missing = {g: ": ".join(next(iter(p.items()))) for g, p in sorted(translated["unavailable"].items())}
        if missing and not context.request.accept_data_loss:
            raise no_position(context.flow.name, missing, RESUMED)
        skipping = [(g, tp, reason) for g, p in translated["skipping"].items() for tp, reason in p.items()]
        number = sum(map(len, translated["positions"].values())) - len(skipping)
        groups = counted(len(translated["positions"]), "group")
        notes = [f"{counted(number, 'position')} of {groups} {verb(number, 'is')} exact"]
        notes += [f"group {g} skips records of {tp}: {reason}" for g, tp, reason in sorted(skipping)]
        notes += [f"group {g} gets no position in {reason}" for g, reason in missing.items()]
        notes += [*translated["settled"], *late_notes(translated["late"]), translated["loss"]["statement"]]
        return StepResult(translated, tuple(notes))

    def _translate(self, context: Context, source: RawCluster | None, *, act: bool) -> dict[str, Any]:
        late = look_late(context, source)
        groups = sorted({*context.scope.groups, *late["groups"]})
        settled = settle(context, source, groups) if source is not None and act else []
        committed, origin = positions_of(context, source, groups)
        away, unknown = _away_on_target(context, groups)
        # The source's ends are read after the groups: else one that commits meanwhile would be past them.
        known = scope_positions(context, source, final=True)
        names = context.scope.topics
        positions: dict[str, dict[str, list[Any]]] = {}
        unavailable: dict[str, dict[str, str]] = {}
        skipping: dict[str, dict[str, str]] = {}
        for group in groups:
            for tp, stored in sorted(committed.get(group, {}).items()):
                if tp.topic not in names:
                    continue
                target = str(TopicPartition(names[tp.topic], tp.partition))
                position = Unavailable(away[group]) if group in away else known.get(tp, NO_PARTITION)
                answer = position if isinstance(position, Unavailable) else position.forward(stored.offset)
                if isinstance(answer, Unavailable):
                    may_skip = context.request.accept_data_loss or context.request.gives_up(tp.topic)
                    nearest = answer.nearest if may_skip else None
                    inexact = unavailable if nearest is None else skipping
                    inexact.setdefault(group, {})[target] = answer.reason
                    if nearest is None:
                        continue
                    answer = Exact(nearest)
                mark = [stored.metadata] if stored.mark is not None else []
                positions.setdefault(group, {})[target] = [stored.offset, answer.offset, *mark]
        if act and not context.request.accept_data_loss:  # else the later statement counts
            drained = context.result(StepName.DRAIN)
            refuse_changed(context, known, drained, drained)
        lost = lost_partitions(context, known, source)
        fenced = bool(context.result(StepName.FENCE).get("proven"))
        return {
            "positions": positions,
            "unavailable": unavailable,
            "skipping": skipping,
            "positions_from": origin,
            "late": late,
            "settled": [*settled, *unknown],
            "frontiers": {
                str(tp): p.frontier if isinstance(p, PartitionPosition) else None
                for tp, p in sorted(known.items())
            },
            **bounds_of(context, known),
            "loss": evidence_of(context, lost, source, fenced=fenced),
        }

    def prove(self, context: Context) -> StepResult:
        """Check that each position translates back to its source offset."""
        translated = context.result(StepName.TRANSLATE)
        known = scope_positions(context, None, final=True)
        source_of = {target: source for source, target in context.scope.topics.items()}
        proven = 0
        for group, partitions in translated.get("positions", {}).items():
            for target, (upstream, downstream, *_) in partitions.items():
                tp = partition_of(target)
                source = TopicPartition(source_of.get(tp.topic, ""), tp.partition)
                position = known.get(source, NO_PARTITION)
                _prove(position, upstream, downstream, f"group {group}, {target}")
                proven += 1
        return StepResult({"proven": proven})


def _away_on_target(context: Context, groups: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return groups whose coordinator on the target is away → why they get no position, and notes."""
    if not context.request.leaves_groups:
        return {}, []
    _, away = ask_target(context, groups)
    brokers = context.run(brokers_away, context.target)
    unknown = f"groups of {context.flow.target}, {brokers}, are known by their checkpoints alone"
    return away, [unknown] if brokers else []


def _refuse_incomplete(context: Context, loss: LossEvidence) -> None:
    if not context.request.planned:
        return
    lost = {
        p["topic"]: f"{p['topic']}-{p['partition']}: {p['missing']:,}"
        for p in loss["partitions"]
        if p["missing"] and not context.request.gives_up(p["topic"])
    }
    if lost:
        raise begins_later(f"{context.flow.name}: {context.flow.target}", lost)
    if any(p["records"] for p in loss["partitions"]):
        raise Refused("switchover_incomplete", where=context.flow.name, evidence=loss["statement"])


def _prove(position: PartitionPosition | Unavailable, upstream: int, downstream: int, where: str) -> None:
    """Check that a target offset and its source offset point to the same first record.

    The first target record at or after `downstream` is the copy of the first copied record at or after
    `upstream`.
    """
    if isinstance(position, PartitionPosition):
        if not len(position.segments) and downstream == position.end:
            return  # no record was copied, so none can be translated back
        source_again = position.backward(downstream)
        if isinstance(source_again, Exact):
            target_again = position.forward(source_again.offset)
            beyond = position.frontier is not None and upstream > position.frontier
            if (
                isinstance(target_again, Exact)
                and target_again.offset == downstream
                and (beyond or source_again.offset >= upstream)
            ):
                return
    raise Failed(
        "translation_not_reversible",
        where=where,
        evidence=f"{upstream} → {downstream} → "
        f"{source_again if isinstance(position, PartitionPosition) else position.reason}",
    )


_AT_ONCE: Final = 250
_NEVER_MS: Final = 1 << 62
_FINE: Final = frozenset({GuardVerdict.UNCHANGED, GuardVerdict.ECHO})


class CommitOffsetsStep(Step):
    """COMMIT_OFFSETS: commits the translated offsets on the target."""

    name = StepName.COMMIT_OFFSETS

    def plan(self, context: Context) -> list[StepEffect]:
        target_groups = from_target(context, on_target, context.scope.groups)
        effects = []
        for group, state in sorted(target_groups.items()):
            marked = sum(s.mark is not None for s in state.stored.values())
            detail = f"{counted(marked, 'position')} by drkit already {verb(marked, 'exists')}"
            if state.members:
                detail = f"{counted(len(state.members), 'member')}: {first_of(state.members)}"
            effects.append(StepEffect(f"commit offsets for {group}", context.flow.target, detail))
        return effects

    def run(self, context: Context) -> StepResult:
        positions = context.result(StepName.TRANSLATE)["positions"]
        target_groups, away = ask_target(context, positions)
        if context.request.evict_members:
            evict_members(context, self.name, context.target, target_groups)
            target_groups = context.run(on_target, context.target, target_groups)
        verdicts, writes = _decided(context, target_groups)
        names = sorted(writes)
        for i in range(0, len(names), _AT_ONCE):
            part = {g: writes[g] for g in names[i : i + _AT_ONCE]}
            before = {g: _before(target_groups[g], part[g]) for g in part}
            with context.effect(self.name, f"groups from {min(part)}", before=before) as outcome:
                failed: dict[str, dict[TopicPartition, str]] = context.run(write, context.target, part)
                outcome["failed"] = {g: [str(tp) for tp in p] for g, p in failed.items()}
            if failed:
                errors = [
                    f"group {g}, {tp}: {reason}"
                    for g, p in sorted(failed.items())
                    for tp, reason in sorted(p.items())
                ]
                raise Failed("positions_not_stored", where=context.flow.target, evidence=first_of(errors))
            context.tell(
                StepProgress(self.name, f"{counted(len(part), 'group')} committed", {"last": max(part)})
            )
        by_verdict = Counter(v.name for p in verdicts.values() for v in p.values())
        kept = sorted(g for g, p in verdicts.items() if GuardVerdict.MOVED in p.values())
        moved = sorted(target_groups.keys() - set(kept))
        notes = [f"offsets of {counted(len(moved), 'group')} committed on {context.flow.target}"]
        notes += [f"{g} has worked on the target and stays where it is there" for g in kept]
        notes += [f"group {g} gets no position: {reason}" for g, reason in sorted(away.items())]
        evidence = {"groups": moved, "kept": kept, "away": away, "verdicts": dict(by_verdict)}
        return StepResult(evidence, tuple(notes))

    def prove(self, context: Context) -> StepResult:
        """Check by the same table that the target has every position, also one that its group committed."""
        away = context.result(self.name).get("away", {})
        groups = sorted(context.result(StepName.TRANSLATE)["positions"].keys() - away.keys())
        target_groups: dict[str, TargetGroup] = context.run(on_target, context.target, groups)
        read_back, nowhere, wrong = 0, [], []
        for group, tp, case, may_keep in _judged(context, target_groups):
            stored = case.on_target.offset if case.on_target is not None else None
            # A member that joined since may have committed past the position.
            verdict = judge(case._replace(state=""))
            has_moved = verdict is GuardVerdict.MOVED
            is_there = stored is not None and (may_keep or stored >= case.offset)
            if verdict in _FINE or (has_moved and is_there):
                read_back += 1
            elif has_moved and may_keep:
                nowhere.append(f"{group} has worked on the target, and has no position in {tp}")
            else:
                wrong.append(f"group {group}, {tp}: {stored}, not {case.offset}")
        if wrong:
            raise Failed("positions_differ", where=context.flow.target, evidence=first_of(wrong))
        return StepResult({"read_back": read_back}, tuple(nowhere))

    def undo(self, context: Context) -> StepResult:
        """Restore earlier offsets of groups without a later commit."""
        restored = 0
        for name, effect in context.effects(self.name).items():
            before = effect["intent"].get("before")
            if before is None:
                continue  # an eviction: members rejoin by themselves
            restored += context.run(restore, context.target, context.flow.source, before)
            context.tell(StepProgress(self.name, f"{name}: rolled back"))
        return StepResult({"restored": restored})


def _decided(
    context: Context, target_groups: Mapping[str, TargetGroup]
) -> tuple[dict[str, dict[TopicPartition, GuardVerdict]], Positions]:
    verdicts: dict[str, dict[TopicPartition, GuardVerdict]] = {}
    writes: Positions = {}
    for group, tp, case, may_keep in _judged(context, target_groups):
        verdict = judge(case)
        verdicts.setdefault(group, {})[tp] = verdict
        if verdict.is_write:
            writes.setdefault(group, {})[tp] = to_write(case)
        elif not (verdict in _FINE or (verdict is GuardVerdict.MOVED and may_keep)):
            raise _refusal(context, group, tp, verdict, target_groups[group])
    return verdicts, writes


def _before(group: TargetGroup, partitions: Iterable[TopicPartition]) -> dict[str, list[Any] | None]:
    stored = {tp: group.stored.get(tp) for tp in partitions}
    return {str(tp): None if s is None else [s.offset, s.metadata] for tp, s in stored.items()}


def _judged(
    context: Context, target_groups: Mapping[str, TargetGroup]
) -> Iterator[tuple[str, TopicPartition, Case, bool]]:
    """Yield each group, partition and case, and whether what the group committed on the target may stay."""
    translated, now, known = context.result(StepName.TRANSLATE), context.wall(), context.known
    topics = set(context.scope.topics.values())
    for group, state in target_groups.items():
        positions = translated["positions"][group]
        # Where the position on the source came from the target, the group had committed on the target before.
        echoes = {partition_of(target) for target, (_, _, *mark) in positions.items() if mark}
        worked = not echoes.issuperset(state.own_work(context.flow.source, topics))
        may_keep = context.request.keep_positions and not _is_in_return(context, group)
        for target, (upstream, downstream, *mark) in positions.items():
            tp = partition_of(target)
            own = state.stored.get(tp)
            copied = TopicPartition(known.upstream.get(tp.topic, ""), tp.partition)
            case = Case(
                source=context.flow.source,
                on_source=StoredOffset(upstream, mark[0] if mark else ""),
                position=Exact(downstream),
                state=state.state,
                on_target=own,
                worked=worked,
                start=translated["starts"][target],
                end=translated["ends"][target],
                promoted=False,
                now_ms=now,
                refresh_ms=_NEVER_MS,
                is_void=known.is_void(copied, own.offset if own is not None else None),
            )
            yield group, tp, case, may_keep


def _is_in_return(context: Context, group: str) -> bool:
    topics = {partition_of(tp).topic for tp in context.result(StepName.TRANSLATE)["positions"][group]}
    return not topics.isdisjoint(begun_by_turn(context.state.records))


def _refusal(
    context: Context, group: str, tp: TopicPartition, verdict: GuardVerdict, state: TargetGroup
) -> Refused | Failed:
    where = f"group {group} on {context.flow.target}, {tp}"
    stored = f"at {state.stored[tp].offset}" if tp in state.stored else "in another partition"
    if verdict is GuardVerdict.LIVE:
        return members_remain(group, context.flow.target, state, RESUMED)
    if verdict is GuardVerdict.MOVED:
        code = "group_on_old_side" if _is_in_return(context, group) else "group_worked_on_target"
        return Refused(code, where=where, evidence=stored, group=group, **RESUMED)
    return Failed(
        "position_not_written",
        where=where,
        evidence=f"state {state.state}, {state.stored.get(tp)}",
        group=group,
        verdict=verdict.value,
        translate_group=translate_group(group),
    )
