"""Changes after SNAPSHOT or TRANSLATE: new groups, topics without a copy, records that groups reprocess."""

from __future__ import annotations

from typing import Any, TypedDict

from drkit.failover.checks.out_of_scope import look_outside, not_copied
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.context import Context, asked_now
from drkit.failover.groups.offsets import Positions, committed_in
from drkit.journal.machine import StepName
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import all_topics
from drkit.model import TopicPartition


class Late(TypedDict):
    """Evidence of TRANSLATE."""

    groups: list[str]
    """Groups of the flow that are not in the scope but move too."""
    remaining: dict[str, str]
    """Groups that read a moved topic and do not move → why."""


def look_late(context: Context, source: RawCluster | None) -> Late:
    """Return what is new since SNAPSHOT. Raises RawError: the source stopped answering."""
    if source is None:
        # The checkpoints may contain a group that no longer exists on the source: it is named, not moved.
        why = "known from the last checkpoints alone, which have set its position on the target"
        new = look_outside(context, None, positions_of(context, None)[0]).late
        return Late(groups=[], remaining=dict.fromkeys(new, why))
    now = look_outside(context, source, {})
    before: dict[str, Any] = context.result(StepName.SNAPSHOT).get("outside", {})
    return Late(
        groups=list(now.late),
        remaining={g: why for g, why in now.groups.items() if g not in before.get("groups", {})},
    )


def late_topics(context: Context) -> dict[str, str]:
    """Return topics that are new since SNAPSHOT and have no copy → why; empty if the source is silent."""

    def look(source: RawCluster) -> dict[str, str]:
        context.state.load()
        return not_copied(context.flow, context.run(all_topics, source), context.state.records)

    now = asked_now(context, look, dict[str, str]()) if context.source() is not None else {}
    before = context.result(StepName.SNAPSHOT).get("outside", {}).get("not_copied", {})
    return {topic: why for topic, why in now.items() if topic not in before}


def too_late(context: Context) -> dict[str, str]:
    """Return groups that first committed in a moved topic after TRANSLATE → why they have no position.

    Empty if the old primary does not answer.
    """
    translated = context.result(StepName.TRANSLATE)
    now: tuple[str, ...] = asked_now(context, lambda source: look_outside(context, source, {}).late, ())
    placed = {*translated.get("positions", {}), *translated.get("late", {}).get("groups", ())}
    why = "it first committed there after TRANSLATE, and has no position here; drkit translate shows it"
    return {group: why for group in now if group not in placed}


def late_notes(late: Late) -> list[str]:
    """Return sentences for the report."""
    return [
        *(f"group {g} committed here after SNAPSHOT, and moves too" for g in late["groups"]),
        *(f"group {g} reads topics that move, and remains: {why}" for g, why in late["remaining"].items()),
    ]


def changed_since(context: Context) -> tuple[dict[str, int], dict[str, str]]:
    """Return what moved groups committed on the old primary after TRANSLATE; empty if it does not answer.

    :returns: group → offsets that it reprocesses, and group → what its positions on the target do not have
    """
    translated, scope = context.result(StepName.TRANSLATE), context.scope.topics
    placed = translated.get("positions", {})
    now: Positions = asked_now(
        context, lambda source: context.run(committed_in, source, context.flow, scope, sorted(placed)), {}
    )
    repeats, changes = dict[str, int](), dict[str, str]()
    for group, committed in now.items():
        for tp, stored in sorted(committed.items()):
            target = str(TopicPartition(scope[tp.topic], tp.partition))
            [before, *_] = placed[group].get(target, [None])
            if before is None:
                if target not in translated["unavailable"].get(group, {}):
                    changes[group] = f"it first committed in {tp}, and has no position there"
            elif stored.offset > before:
                repeats[group] = repeats.get(group, 0) + stored.offset - before
            elif stored.offset < before:
                changes[group] = f"{tp} was set back from {before} to {stored.offset}"
    return repeats, changes
