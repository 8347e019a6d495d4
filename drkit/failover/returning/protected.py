"""DONE of a return: says who protects the new primary."""

from __future__ import annotations

from drkit.counted import first_of
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import reverse
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.old_primary.lost_tail import forget_saved
from drkit.failover.returning.begin import LIFT
from drkit.flow_state.lease.watch import replicator_of
from drkit.kafka.transactions.open_transactions import hanging


class ProtectedStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.DONE

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        return [StepEffect("say who copies", f"{context.flow.target}->{context.flow.source}")]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`."""
        forget_saved(context)
        flow = f"{context.flow.target}->{context.flow.source}"
        with reverse(context) as back:
            runner = replicator_of(back.state.records, context.wall())
        if runner is not None and runner.alive:
            line = f"{context.flow.target} is protected: {flow} is copied by {runner.host}"
        else:
            line = (
                f"{context.flow.target} is not protected until it is copied: drkit replicate --flow '{flow}'"
            )
        lines = [line, *self._hanging(context)]
        protected = runner is not None and runner.alive
        return StepResult({"next": lines, "protected": protected}, tuple(lines))

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

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()
