"""A dry run: what each step of a table would do now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from drkit.failover.core.context import Context
from drkit.failover.core.machine import FAILOVER, StepName, Table
from drkit.failover.core.step import Step, StepEffect


class Planned(NamedTuple):
    """A line of a dry run."""

    step: StepName
    effect: StepEffect


def rehearse(context: Context, steps: Mapping[StepName, Step], table: Table = FAILOVER) -> list[Planned]:
    """Return what every step would do now, in the order of the table. Changes nothing.

    :raises DrkitError: a cluster does not answer
    """
    return [Planned(row.step, effect) for row in table.rows for effect in steps[row.step].plan(context)]
