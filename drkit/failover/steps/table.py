"""The step of each row of the table."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step
from drkit.failover.steps.commit_offsets import CommitOffsetsStep
from drkit.failover.steps.done import DoneStep
from drkit.failover.steps.drain import DrainStep
from drkit.failover.steps.fence import FenceStep
from drkit.failover.steps.freeze import FreezeStep
from drkit.failover.steps.look import LockStep, SnapshotStep
from drkit.failover.steps.opening import OpenStep
from drkit.failover.steps.repointing import RepointStep
from drkit.failover.steps.translate import TranslateStep
from drkit.failover.steps.verify import VerifyStep


def all_steps() -> Mapping[StepName, Step]:
    """Return a step for every row."""
    steps: tuple[Step, ...] = (
        LockStep(), SnapshotStep(),
        FenceStep(), DrainStep(), FreezeStep(),
        TranslateStep(), CommitOffsetsStep(), OpenStep(), RepointStep(), VerifyStep(), DoneStep(),
    )  # fmt: skip
    return {step.name: step for step in steps}
