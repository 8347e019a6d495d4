"""The fence of an old primary after its failover: the step FENCE, applied at the first contact."""

from __future__ import annotations

from typing import Final

from drkit.counted import counted
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepResult
from drkit.failover.fencing.proof import Proof
from drkit.failover.steps.fence import FenceStep

_SHOWN: Final = 5
BY_COMMAND: Final = "drkit fence pay"
"""What applies a pending fence without a return."""


class LateFence(FenceStep):
    """The step FENCE after the end of a failover. It never calls the site's stop hook for a silent source.

    :param step: under whose name its effects are journalled
    :param command: what a person types to try again
    """

    def __init__(self, step: StepName = StepName.FENCE, command: str = BY_COMMAND) -> None:
        self._step, self._command = step, command

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return self._step

    def _silent(self, context: Context) -> StepResult:
        raise not_answering(context, self._command)

    def _unproven(self, context: Context, proof: Proof) -> StepResult:
        some = ", ".join(f"{at}: {why}" for at, why in sorted(proof.open.items())[:_SHOWN])
        raise Refused(
            f"the old primary still takes writes in {counted(len(proof.open), 'partition')}",
            where=context.flow.source,
            evidence=some,
            hint="see means and canary in [failover.fence] (super users pass every ACL), then:"
            f" {self._command}",
        )


def not_answering(context: Context, command: str) -> ClusterUnreachable:
    """The error of an old primary that does not answer.

    :param command: what a person types when it answers
    """
    return ClusterUnreachable(
        "the old primary does not answer",
        where=context.flow.source,
        evidence=context.source_error,
        hint=f"bring it back, or keep its listeners closed, then: {command}",
    )
