"""Walks the table: intent before each step, result behind it, the proof in between; and the way back.

Whatever a step raises leaves the run as it is: before anything was changed it ends as refused, later it is
held until somebody resumes or aborts it. A process that is killed leaves the same behind as one that was
held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from drkit.errors import ClusterUnreachable, DrkitError, Failed, Refused
from drkit.failover.context import Context, Progress
from drkit.failover.entries import Kind, RunLog
from drkit.failover.journal import Journal, Taken
from drkit.failover.machine import (
    FIRST_CHANGE,
    POINT_OF_NO_RETURN,
    TABLE,
    Row,
    State,
    StepName,
    is_before,
)
from drkit.failover.step import Effect, Step, StepResult
from drkit.kafka.raw import RawError

_UNANSWERED: Final = "a cluster stopped answering"
_AGAIN_SECONDS: Final = 10.0
"""From the first silence in a step on: in that time another broker leads and coordinates."""
_PAUSE_SECONDS: Final = 0.5


class Planned(NamedTuple):
    """A line of a dry run."""

    step: StepName
    effect: Effect


class Interpreter:
    """One process at work on one run.

    :param steps: every row of the table has its step
    """

    def __init__(self, context: Context, journal: Journal, steps: Mapping[StepName, Step]) -> None:
        self._context = context
        self._journal = journal
        self._steps = steps

    def walk(self) -> None:
        """Go on from where the journal stands, to the end.

        :raises DrkitError: a step refused or failed; that is journalled
        """
        known = set(self._journal.run.results)
        for row in TABLE:
            if row.step not in known:
                self._guarded(row, self._run)
            elif row.standing:
                self._guarded(row, self._still)
        self._journal.write(Kind.END, None, "", {"state": State.DONE.value})

    def abort(self, reason: str) -> None:
        """Take back what was done, last step first.

        :raises Refused: the point of no return is behind
        :raises DrkitError: a step could not be undone; the abort may be repeated
        """
        run = self._journal.run
        refuse_late_abort(run)
        if run.state is not State.ABORTING:
            self._journal.write(Kind.ABORT, None, "", {"reason": reason})
        for row in reversed(TABLE):
            if row.step in run.begun and row.step not in run.undone:
                self._guarded(row, self._undo)
        self._journal.write(Kind.END, None, "", {"state": State.ABORTED.value})

    # -- one step -----------------------------------------------------------------------------------

    def _guarded(self, row: Row, work: Callable[[Row], None]) -> None:
        """Journal what a step raises; a lock that is gone allows no more entries."""
        try:
            try:
                work(row)
            except RawError as error:
                raise Failed(
                    _UNANSWERED,
                    where=f"{row.step} of {self._context.flow.name}",
                    evidence=repr(error),
                    hint="see drkit status, then: drkit failover --resume",
                ) from error
        except Taken:
            raise
        except DrkitError as error:
            self._held(row.step, error)
            raise

    def _held(self, step: StepName, error: DrkitError) -> None:
        aborting = self._journal.run.state is State.ABORTING
        if is_before(step, FIRST_CHANGE) and not aborting:
            body = {"state": State.REFUSED.value, "step": step.value, "error": error.as_dict()}
            self._journal.write(Kind.END, None, "", body)
        else:
            self._journal.write(Kind.HELD, step, "", {"error": error.as_dict()})

    def _run(self, row: Row) -> None:
        context = self._context
        began = context.clock()
        self._tell(row.step, row.does)
        self._journal.write(Kind.INTENT, row.step, "", {})
        done, proof = self._worked(row.step)
        body: dict[str, Any] = {
            "evidence": done.evidence,
            "notes": [*done.notes, *proof.notes],
            "proof": proof.evidence,
            "seconds": round(context.clock() - began, 3),
        }
        self._journal.write(Kind.RESULT, row.step, "", body)
        for note in done.notes:
            self._tell(row.step, note)

    def _worked(self, name: StepName) -> tuple[StepResult, StepResult]:
        """What a step did, and its proof; while a broker goes, every step may be repeated."""
        step, context = self._steps[name], self._context
        deadline = float("inf")
        while True:
            try:
                done = step.run(context)
                # What the step found is known to its own proof, and to nobody else until it is proven.
                self._journal.found[name] = done.evidence
                return done, step.prove(context)
            except (RawError, ClusterUnreachable) as error:
                deadline = min(deadline, context.clock() + _AGAIN_SECONDS)
                if context.clock() >= deadline:
                    raise
                self._tell(name, f"again, a broker did not answer: {error!r}")
                context.forget_admin()
                context.run(context.loop.sleep, _PAUSE_SECONDS)

    def _still(self, row: Row) -> None:
        """A step that an earlier process ended: its effect must still hold, or it is done again."""
        try:
            self._steps[row.step].prove(self._context)
        except DrkitError as error:
            self._tell(row.step, f"does not hold any more: {error.what}")
            self._run(row)

    def _undo(self, row: Row) -> None:
        self._tell(row.step, "taken back")
        self._journal.write(Kind.UNDO, row.step, "", {})
        done = self._steps[row.step].undo(self._context)
        self._journal.write(Kind.UNDONE, row.step, "", {"evidence": done.evidence, "notes": list(done.notes)})

    def _tell(self, step: StepName, what: str) -> None:
        self._context.tell(Progress(step, what))


def refuse_late_abort(run: RunLog) -> None:
    """No way back behind the point of no return.

    :raises Refused: it has begun
    """
    if not run.abortable:
        raise Refused(
            f"there is no way back behind {POINT_OF_NO_RETURN}",
            where=f"run {run.run_id}",
            evidence=f"{run.last_step} has begun: clients may have written to the new primary",
            hint="finish it: drkit failover --resume; to move back, protect the new primary first",
        )


def rehearse(context: Context, steps: Mapping[StepName, Step]) -> list[Planned]:
    """What every step would do now, in the order of the table; nothing is changed.

    :raises DrkitError: a cluster does not answer
    """
    return [Planned(row.step, effect) for row in TABLE for effect in steps[row.step].plan(context)]
