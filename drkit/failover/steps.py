"""Which step stands behind each row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drkit.failover.commit_offsets import CommitOffsets
from drkit.failover.context import Context
from drkit.failover.done import Done
from drkit.failover.drain import Drain
from drkit.failover.look_steps import Lock, Snapshot
from drkit.failover.machine import StepName
from drkit.failover.opening import Open
from drkit.failover.repointing import Repoint
from drkit.failover.step import Effect, Step, StepResult
from drkit.failover.translate import Translate
from drkit.failover.verify import Verify


class Owed:
    """A step whose effect has to come from elsewhere: it says so, and owes the proof."""

    def __init__(self, name: StepName, debt: str) -> None:
        self._name, self._debt = name, debt

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.step.Step`."""
        return self._name

    def plan(self, context: Context) -> list[Effect]:
        """See :class:`drkit.failover.step.Step`."""
        return [Effect("do nothing", context.flow.name, self._debt)]

    def run(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.step.Step`."""
        evidence: dict[str, Any] = {"proven": False, "how": "debt", "debt": self._debt}
        return StepResult(evidence, (self._debt,))

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.step.Step`."""
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.step.Step`."""
        return StepResult()


def all_steps() -> Mapping[StepName, Step]:
    """A step for every row."""
    steps: tuple[Step, ...] = (
        Lock(), Snapshot(),
        Owed(StepName.FENCE, "the old primary is not fenced by drkit: close its listeners"),
        Drain(),
        Owed(StepName.FREEZE, "drkit's own writers are not fenced: stop drkit replicate"),
        Translate(), CommitOffsets(), Open(), Repoint(), Verify(), Done(),
    )  # fmt: skip
    return {step.name: step for step in steps}
