"""The step of each row of the table of a return."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step
from drkit.failover.returning.begin import BeginStep
from drkit.failover.returning.compare import CompareStep
from drkit.failover.returning.contact import ContactStep
from drkit.failover.returning.deciding import DecideStep
from drkit.failover.returning.demote import DemoteStep
from drkit.failover.returning.exporting import ExportStep
from drkit.failover.returning.protected import ProtectedStep
from drkit.failover.returning.replaying import ReplayStep
from drkit.failover.steps.look import LockStep


def return_steps() -> Mapping[StepName, Step]:
    """Return a step for every row."""
    steps: tuple[Step, ...] = (
        LockStep(), ContactStep(), CompareStep(), ExportStep(), DecideStep(), DemoteStep(), BeginStep(),
        ReplayStep(), ProtectedStep(),
    )  # fmt: skip
    return {step.name: step for step in steps}
