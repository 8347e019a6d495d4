"""The interface of the steps of the table, and the evidence that they pass on in the journal.

A step may be killed at any line. Another process, perhaps on another machine, then runs it again: `run`
inspects the clusters and changes only what differs from the wanted state. It returns everything that later
steps, a resumed run, an abort or the report need; nothing is kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

from drkit.failover.core.context import Context
from drkit.journal.machine import StepName


class StepEffect(NamedTuple):
    """An effect of a step, done or planned, in words."""

    what: str
    """Such as ``deny WRITE on the topic orders to User:shop``."""
    where: str
    why: str = ""


@dataclass(frozen=True)
class StepResult:
    """The effects and findings of a step, for the journal.

    :param evidence: plain JSON data, for later steps (`Context.result`), a resumed run and the report
    :param notes: sentences for people, in the report under the step's name
    """

    evidence: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Step(Protocol):
    """One step of the table.

    Errors: :class:`drkit.errors.Refused` holds the run (exit 3; with reason, evidence and the command that
    clears it), any other :class:`drkit.errors.DrkitError` fails it (exit 1). Both leave the run as it is:
    `--resume` runs the step again, `--abort` undoes it.
    """

    @property
    def name(self) -> StepName:
        """The row of the table."""

    def plan(self, context: Context) -> list[StepEffect]:
        """Return what `run` would do now, in order, for a dry run. Changes and journals nothing.

        Effects that depend on earlier steps are marked as unknown.
        """

    def announce(self, context: Context, *, begun: bool) -> None:  # noqa: ARG002  for those that are
        """Announce the step on a cluster, which may refuse it. `begun`: it began in an earlier process."""
        return

    def run(self, context: Context) -> StepResult:
        """Run the step. Each effect on a cluster, file or other system uses :meth:`Context.effect`."""

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  for steps with effects
        """Inspect the clusters, not the journal, and return the evidence that the effect is in force.

        Called right after `run`, and again by a resumed run if the row ``must_hold``; an error there causes
        another `run`. A step without effects returns an empty result.
        """
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  for steps with effects
        """Undo what `run` did, also in part; for an abort, before the point of no return.

        Must find out which effects exist (`Context.effects` has the intents, perhaps without a result) and
        may be run again. A step without effects returns an empty result.
        """
        return StepResult()


class FenceEvidence(TypedDict):
    """Evidence of FENCE."""

    proven: bool
    """Whether every partition's leader refused a client's canary: no write is acknowledged any more."""
    how: str
    """``acl``, ``max.message.bytes``, ``stopped`` (a hook of the site) or ``debt``: the fence is pending."""
    debt: str
    """The reason why the fence is pending until the first contact, or empty if it is proven."""
    details: NotRequired[Any]


class FreezeEvidence(TypedDict):
    """Evidence of FREEZE."""

    proven: bool
    """Whether every partition's leader refuses drkit's older writers."""
    details: NotRequired[Any]


class LossEvidence(TypedDict):
    """Evidence of DRAIN: records that are not on the target and will not be."""

    drained: bool
    """Whether the copy reached the end of every partition, and that end cannot move."""
    exact: bool
    """Whether records were counted on a source that answers; else `partitions` has the first lost offsets."""
    records: int | None
    """Number of lost records, with `held_back`."""
    held_back: int
    """Upper bound on records above the last stable offset: not copied, since a transaction was open."""
    held_acknowledged: int
    """Upper bound on those of `held_back` not known to belong to an undecided transaction."""
    seconds: float | None
    """Age of the oldest lost record."""
    partitions: list[dict[str, Any]]
    statement: str
