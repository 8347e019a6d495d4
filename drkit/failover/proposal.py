"""Proposals to a person before a run begins: scope, dry run, findings and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from drkit.errors import Refused
from drkit.failover.checks.scope import Chosen
from drkit.failover.checks.survey import Survey
from drkit.failover.core.context import Context
from drkit.failover.core.step import Step, StepEffect
from drkit.journal.machine import FAILOVER, StepName, Table


class Planned(NamedTuple):
    """A line of a dry run."""

    step: StepName
    effect: StepEffect


def rehearse(context: Context, steps: Mapping[StepName, Step], table: Table = FAILOVER) -> list[Planned]:
    """Return what every step would do now, in the table's order. Changes nothing. Raises DrkitError."""
    return [Planned(row.step, effect) for row in table.rows for effect in steps[row.step].plan(context)]


class Proposal(NamedTuple):
    """A failover that a person has to confirm."""

    flow: str
    chosen: Chosen
    survey: Survey
    flow_back: str | None


class Rehearsal(NamedTuple):
    """A dry run: what each step would do, and what would be refused."""

    chosen: Chosen
    survey: Survey
    lines: list[Planned]
    refusals: list[tuple[str, Refused]]
    """The refusals by gate, or none if the failover would begin."""
    flow_back: str | None


class ReturnProposal(NamedTuple):
    """A failback that a person has to confirm."""

    old_primary: str
    new_primary: str
    back: str
    """The reverse flow, which copies from then on."""
    topics: Mapping[str, str]
    """Their names on the old primary → on the new one."""
    lines: list[Planned]
    undecided: str = ""
    """The decisions that are missing before anything is destroyed, or empty."""


Confirm = Callable[[Proposal], None]
"""Asks for confirmation; raises when the answer is no."""
ConfirmReturn = Callable[[ReturnProposal], None]
"""Asks for confirmation of a failback."""
