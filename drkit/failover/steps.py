"""Which step stands behind each row of the table."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.failover.commit_offsets import CommitOffsets
from drkit.failover.done import Done
from drkit.failover.drain import Drain
from drkit.failover.fence import Fence
from drkit.failover.freeze import Freeze
from drkit.failover.look_steps import Lock, Snapshot
from drkit.failover.machine import StepName
from drkit.failover.opening import Open
from drkit.failover.repointing import Repoint
from drkit.failover.step import Step
from drkit.failover.translate import Translate
from drkit.failover.verify import Verify


def all_steps() -> Mapping[StepName, Step]:
    """A step for every row."""
    steps: tuple[Step, ...] = (
        Lock(), Snapshot(),
        Fence(), Drain(), Freeze(),
        Translate(), CommitOffsets(), Open(), Repoint(), Verify(), Done(),
    )  # fmt: skip
    return {step.name: step for step in steps}
