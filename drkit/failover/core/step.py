"""What each step of the table implements.

A step may be killed between any two of its lines and is then run again by another process, perhaps on another
machine: `run` looks at the clusters and changes only what is not as it should be. What later steps, a
resumed run, an abort or the report need is in what it returns, never in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName


class StepEffect(NamedTuple):
    """Something a step does, or would do, in words."""

    what: str
    """Such as ``deny WRITE on the topic orders to User:shop``."""
    where: str
    """Cluster, and broker, topic or group."""
    why: str = ""


@dataclass(frozen=True)
class StepResult:
    """What a step did or found; journalled.

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
        """Which row of the table this is."""

    def plan(self, context: Context) -> list[StepEffect]:
        """What `run` would do now, in its order, for a dry run: only looks, changes and journals nothing.

        What cannot be known before earlier steps have run is told as such.
        """

    def run(self, context: Context) -> StepResult:
        """Do it. Each effect on a cluster, file or other system goes through :meth:`Context.effect`."""

    def prove(self, context: Context) -> StepResult:
        """Look at the clusters, not at the journal, and return the evidence that the effect is in force.

        Called right after `run`, and again by whoever resumes if the row is ``standing``; what it raises
        there lets `run` be called again. A step without effects returns an empty result.
        """

    def undo(self, context: Context) -> StepResult:
        """Take back what `run` did, also if only in part; for an abort, before the point of no return.

        Must find out by itself what stands (`Context.effects` has the intents, perhaps without a result) and
        may be run again. A step without effects returns an empty result.
        """
