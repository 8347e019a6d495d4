"""Which step stands behind each row of the table."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step
from drkit.failover.steps.commit_offsets import CommitOffsets
from drkit.failover.steps.done import Done
from drkit.failover.steps.drain import Drain
from drkit.failover.steps.fence import Fence
from drkit.failover.steps.freeze import Freeze
from drkit.failover.steps.look import Lock, Snapshot
from drkit.failover.steps.opening import Open
from drkit.failover.steps.repointing import Repoint
from drkit.failover.steps.translate import Translate
from drkit.failover.steps.verify import Verify


def all_steps() -> Mapping[StepName, Step]:
    """A step for every row."""
    steps: tuple[Step, ...] = (
        Lock(), Snapshot(),
        Fence(), Drain(), Freeze(),
        Translate(), CommitOffsets(), Open(), Repoint(), Verify(), Done(),
    )  # fmt: skip
    return {step.name: step for step in steps}
