"""REPLAY: exported records are appended to the new primary, where that was decided."""

from __future__ import annotations

from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.returning.deciding import decided


class ReplayStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.REPLAY

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        target = context.flow.target
        return [
            StepEffect(f"append exported records of {topic}", target, d.disposition.value)
            for topic, d in sorted(decided(context).items())
            if d.disposition in {Disposition.REPLAY, Disposition.QUARANTINE}
        ]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`."""
        if self.plan(context):
            raise NotImplementedError
        return StepResult()

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`: the appended records and the progress are one transaction."""
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`: what was appended stays."""
        return StepResult()
