"""Offsets that groups committed on the old primary after TRANSLATE: they reprocess them on the new one."""

from __future__ import annotations

from drkit.failover.core.asking import asked_now
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.groups.look import Positions, committed_on_source, partition_of
from drkit.model import TopicPartition


def repeated(context: Context) -> dict[str, int]:
    """Return group → offsets committed on the old primary since TRANSLATE; empty if it does not answer."""
    placed = context.result(StepName.TRANSLATE).get("positions", {})
    source_names = {target: name for name, target in context.scope.topics.items()}
    now: Positions = asked_now(
        context,
        lambda source: context.run(committed_on_source, source, context.flow, context.known, sorted(placed)),
        {},
    )
    found: dict[str, int] = {}
    for group, partitions in placed.items():
        known = {_upstream(at, source_names): place[0] for at, place in partitions.items()}
        moved = (s.offset - known[at] for at, s in now.get(group, {}).items() if at in known)
        if number := sum(max(0, n) for n in moved):
            found[group] = number
    return found


def _upstream(target: str, names: dict[str, str]) -> TopicPartition:
    at = partition_of(target)
    return TopicPartition(names[at.topic], at.partition)
