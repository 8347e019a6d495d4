"""Changes after SNAPSHOT or TRANSLATE: new groups that read a moved topic, new topics without a copy."""

from __future__ import annotations

from typing import Any, TypedDict

from drkit.failover.checks.outside import look_outside
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.asking import asked_now
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.kafka.raw import RawCluster


class Late(TypedDict):
    """Evidence of TRANSLATE."""

    groups: list[str]
    """Groups of the flow that are not in the scope but move too."""
    remaining: dict[str, str]
    """Groups that read a moved topic and do not move → why."""
    not_copied: dict[str, str]
    """Topics without a copy → why."""


def look_late(context: Context, source: RawCluster | None) -> Late:
    """Return what is new since SNAPSHOT.

    :raises RawError: the source stopped answering
    """
    if source is None:
        # The checkpoints may contain a group that no longer exists on the source: it is named, not moved.
        positions, _ = positions_of(context, None)
        why = "known from the last checkpoints alone, which have set its position on the target"
        new = look_outside(context, None, positions).late
        return Late(groups=[], remaining=dict.fromkeys(new, why), not_copied={})
    now, before = look_outside(context, source, {}), _before(context)
    return Late(
        groups=list(now.late),
        remaining={g: why for g, why in now.groups.items() if g not in before.get("groups", {})},
        not_copied={t: why for t, why in now.not_copied.items() if t not in before.get("not_copied", {})},
    )


def too_late(context: Context) -> dict[str, str]:
    """Return groups that first committed in a moved topic after TRANSLATE → why they have no position.

    Empty if the old primary does not answer.
    """
    translated = context.result(StepName.TRANSLATE)
    now: tuple[str, ...] = asked_now(context, lambda source: look_outside(context, source, {}).late, ())
    placed = {*translated.get("positions", {}), *translated.get("late", {}).get("groups", ())}
    why = "it first committed there after TRANSLATE, and has no position here; drkit translate shows it"
    return {group: why for group in now if group not in placed}


def _before(context: Context) -> dict[str, Any]:
    found: dict[str, Any] = context.result(StepName.SNAPSHOT).get("outside", {})
    return found


def late_notes(late: Late) -> list[str]:
    """Return sentences for the report."""
    return [
        *(f"group {group} committed here after SNAPSHOT, and moves too" for group in late["groups"]),
        *(
            f"group {group} reads topics that move, and remains: {why}"
            for group, why in late["remaining"].items()
        ),
        *(f"topic {topic} remains: {why}" for topic, why in late["not_copied"].items()),
    ]
