"""DONE of a return: says who copies its topics, and which topics of the flow have not returned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.failover.core.context import Context
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.core.reverse import reverse
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.old_primary.lost_tail import forget_saved
from drkit.failover.returning.begin import LIFT
from drkit.failover.returning.scope import promoted
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.returns import still_away
from drkit.kafka.transactions import hanging


class ProtectedStep(Step):
    """See the module."""

    name = StepName.DONE

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        return [StepEffect("say who copies", f"{context.flow.target}->{context.flow.source}")]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`."""
        forget_saved(context)
        with reverse(context) as back:
            runner = replicator_of(back.state.records, context.wall())
            done = back.state.all(ReturnRecord)
        host = runner.host if runner is not None and runner.alive else ""
        others = {t: role for t, role in promoted(context).items() if t not in context.scope.topics}
        copies = {topic: known[0] for topic, known in context.known.topics.items()}
        left = list(still_away(others, copies, done))
        lines = [*copied_by(context.flow, context.scope.topics.values(), host, left), *self._hanging(context)]
        return StepResult({"next": lines, "copied_by": host}, tuple(lines))

    def _hanging(self, context: Context) -> list[str]:
        """What is to be done before a switchover back, where the fence was one by size."""
        source = context.source()
        lifted = any(name.startswith(LIFT) for name in context.effects(StepName.BEGIN))
        if not lifted or source is None:
            return []
        found: dict[str, int] = context.run(hanging, source, context.scope.topics, context.wall())
        if not found:
            return []
        brokers = ", ".join(map(str, sorted(set(found.values()))))
        what = f"before a switchover back restart broker {brokers} of {context.flow.source}"
        return [f"{what}: the fence refused markers of {first_of(sorted(found))}"]


def copied_by(flow: FlowSettings, topics: Iterable[str], host: str, left: Sequence[str]) -> list[str]:
    """What protects the new primary after a return. Pure.

    :param flow: the flow that was failed over
    :param topics: those that have returned, by their names on the new primary
    :param host: where a replicator of the flow back lives; empty: none does
    :param left: promoted topics that have not returned, by their names on the old primary
    """
    back = f"{flow.target}->{flow.source}"
    if host:
        some = first_of(sorted(topics))
        line = f"{back} on {host} copies {some}: protected once drkit status says PROTECTED of them"
    else:
        line = f"{flow.target} is not protected until it is copied: drkit replicate --flow '{back}'"
    if not left:
        return [line]
    some, it = counted(len(left), "other topic", "has"), "it" if len(left) == 1 else "them"
    what = f"{some} not returned, and nothing copies {it} ({first_of(sorted(left))})"
    return [line, f"{what}: {RETURN.typed('--flow', flow.name)}"]
