"""Changes after SNAPSHOT or TRANSLATE: new groups, topics without a copy, records that groups reprocess."""

from __future__ import annotations

from typing import Any, TypedDict

from drkit.failover.checks.out_of_scope import look_outside, not_copied
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.context import Context, asked_now
from drkit.failover.groups.offsets import Positions, committed_in, partition_of
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


def repeated(context: Context) -> dict[str, int]:
    """Return group → offsets committed on the old primary since TRANSLATE; empty if it does not answer."""
    placed = context.result(StepName.TRANSLATE).get("positions", {})
    source_names = {target: name for name, target in context.scope.topics.items()}
    now: Positions = asked_now(
        context,
        lambda source: context.run(committed_in, source, context.flow, context.known.topics, sorted(placed)),
        {},
    )
    repeats: dict[str, int] = {}
    for group, partitions in placed.items():
        known = {
            TopicPartition(source_names[tp.topic], tp.partition): place[0]
            for tp, place in ((partition_of(text), place) for text, place in partitions.items())
        }
        moved = (s.offset - known[tp] for tp, s in now.get(group, {}).items() if tp in known)
        if number := sum(max(0, n) for n in moved):
            repeats[group] = number
    return repeats
