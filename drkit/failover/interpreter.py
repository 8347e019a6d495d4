"""Runs the steps of the table, each with an intent, the effect, a proof and a result; or undoes them.

The assumptions of a step may become false during the run. Before the steps that the table names, the old
primary is asked again: one that answers and is not fenced leads back to FENCE, and copying resumes.
A resumed run proves lasting effects again and repeats observations, until OPEN has begun.

An error of a step leaves the run as it is: before the first change the run ends as refused, later it is held
until a person resumes or aborts it. A killed process leaves the same state as a held run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
import struct
from traceback import extract_tb
from typing import Any, Final, TypeVar

from drkit.errors import ClusterUnreachable, DrkitError, Failed, Refused
from drkit.failover.core.context import Context, Scope, StepProgress, StopAsked
from drkit.failover.core.step import Step, StepResult
from drkit.failover.fencing.source_record import refuse_aborted
from drkit.journal.entries import EntryKind, RunLog
from drkit.journal.journal import Journal, RunLocked
from drkit.journal.machine import FAILOVER, RunState, StepName, StepRow
from drkit.journal.stall import ProcessSuspended, Stall
from drkit.kafka.clients import KafkaException
from drkit.kafka.raw import RawError
from drkit.kafka.transport import permitted_by

UNEXPECTED: Final = (
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError, struct.error,
    KafkaException,
)  # fmt: skip
"""Types of unexpected errors; drkit's own errors are not among them."""


def unexpected(error: BaseException, where: str, command: str = FAILOVER.command) -> Failed:
    """Return the error that holds the run at `where`; `command` resumes or aborts it."""
    last = extract_tb(error.__traceback__)[-1:]
    origin = "".join(f", in {each.name} of {_module(each.filename)}, line {each.lineno}" for each in last)
    return Failed(
        "step_unexpected", where=where, evidence=f"{type(error).__name__}: {error}{origin}", command=command
    )


def interrupted(context: Context, run: RunLog, row: StepRow, *, changed: bool) -> Failed:
    """Return the error that holds a run stopped before or in `row`; `changed`: more than its journal."""
    where, command = f"{row.step} of {context.flow.name}, run {run.run_id}", run.table.command
    if not changed:
        begin = f"begin it again: {command}"
        return Failed("run_interrupted", where=where, evidence="nothing was changed", hint=begin)
    fenced = StepName.FENCE in run.begun and StepName.FENCE not in run.undone
    evidence, undo = "the run is held", f"{command} --abort"
    if fenced and run.table is FAILOVER:
        evidence = f"{context.flow.source} refuses producers, and {context.flow.target} is not open"
    hint = undo if run.state is RunState.ABORTING else f"continue: {command} --resume; roll back: {undo}"
    return Failed("run_interrupted", where=where, evidence=evidence, hint=hint)


def _module(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


@contextmanager
def request_errors() -> Iterator[None]:
    """Raise ClusterUnreachable for a request outside a run without an answer: a watch reports no RawError."""
    try:
        yield
    except RawError as error:
        raise ClusterUnreachable(error.code, where=error.where, evidence=error.evidence) from error


T = TypeVar("T")

_AGAIN_SECONDS: Final = 90.0
"""Time for retries after the first silence in a step. A broker waits 30 s for a frozen controller
(`controller.socket.timeout.ms`), from the first request that it gets, until it forwards requests to the next
one; of three brokers two may do so, one after the other. Leaders change sooner."""
_PAUSE_SECONDS: Final = 0.5
_MOST_STEPS_BACK: Final = 5
"""Limit in one process; then a person decides."""


@dataclass
class Interpreter:
    """Runs or aborts one run in one process.

    :param steps: one step for every row of the run's table
    :param stall: notices pauses of this process
    """

    context: Context
    journal: Journal
    steps: Mapping[StepName, Step]
    stall: Stall

    def __post_init__(self) -> None:
        self._table = self.journal.run.table
        self._steps_back = 0

    def walk(self) -> None:
        """Continue from the journal's last entry to the end. Raises DrkitError: a step refused or failed."""
        ended = self._kept()
        run, index = self.journal.run, 0
        if run.table is FAILOVER and run.last_step is not None:
            refuse = partial(refuse_aborted, self.context)
            self._guarded(self._table.row[run.last_step], lambda row: self._awake(row.step, refuse))
        while index < len(self._table.rows):
            row, repeated = self._table.rows[index], None
            self._guarded(row, self._stop_if_asked)
            if row.looks_again and not self._opened and self._is_unfenced():
                repeated = StepName.FENCE
            elif row.step in ended and row.must_hold and not self._still_holds(row):
                repeated = row.step
            if repeated is not None:
                self._guarded(row, self._refuse_flapping)
                ended -= self._step_back(repeated)
                index = self._table.order.index(repeated)
                continue
            if row.step not in ended:
                self._guarded(row, self._run)
                ended.add(row.step)
            index += 1
        self.journal.write(EntryKind.END, None, "", {"state": RunState.DONE.value})

    def abort(self, reason: str) -> None:
        """Undo the steps, last first. Raises Refused: past the point of no return; DrkitError: repeat it."""
        run = self.journal.run
        refuse_late_abort(run)
        if run.state is not RunState.ABORTING:
            self.journal.write(EntryKind.ABORT, None, "", {"reason": reason})
        self._undo_all()
        self.journal.write(EntryKind.END, None, "", {"state": RunState.ABORTED.value})

    def narrow(self, scope: Scope) -> None:
        """Undo the steps, last first, and continue with a smaller scope, on record. Raises as :meth:`abort`.

        What leaves the scope is not fenced or frozen any more.
        """
        self._undo_all()
        body = {"holder": self.journal.run.holder, "scope": scope.to_json()}
        self.journal.write(EntryKind.HOLD, None, "", body)
        self.context.scope = scope

    def _undo_all(self) -> None:
        run = self.journal.run
        for row in reversed(self._table.rows):
            if row.step in run.begun and row.step not in run.undone:
                self._guarded(row, self._undo)

    @property
    def _opened(self) -> bool:
        """Return whether clients may write to the new primary: then no earlier step is repeated."""
        return self.journal.run.is_final

    def _kept(self) -> set[StepName]:
        known = self.journal.run.results
        return {s for s in known if self._opened or not self._table.row[s].is_finding}

    def _is_unfenced(self) -> bool:
        """Return whether the old primary answers now and takes, or may take, writes."""
        context, fence = self.context, self.context.result(StepName.FENCE)
        if fence.get("details", {}).get("answered"):
            return False  # a person decided, on record, to continue unfenced
        if context.look_at_source() is None:
            return False
        # A primary that dies during the check takes no writes.
        return not self._still_holds(self._table.row[StepName.FENCE]) and context.look_at_source() is not None

    def _still_holds(self, row: StepRow) -> bool:
        try:
            self._awake(row.step, lambda: self.steps[row.step].prove(self.context))
        except RunLocked:
            raise
        except DrkitError as error:
            self._tell(row.step, f"does not hold any more: {error}")
            return False
        return True

    def _step_back(self, to: StepName) -> set[StepName]:
        """Undo later steps before one is repeated; return the steps to run."""
        again = set(self._table.order[self._table.order.index(to) :])
        if self._opened:
            return {to}
        done = self.journal.run.begun - self.journal.run.undone
        for row in reversed(self._table.rows):
            if row.step in again & done and row.step is not to and row.must_hold:
                self._guarded(row, self._undo)
        return again

    @property
    def _has_changed(self) -> bool:
        run = self.journal.run
        rows = (self._table.row[step] for step in run.begun)
        return any(row.changes and (not row.until_effect or run.effects.get(row.step)) for row in rows)

    def _refuse_flapping(self, row: StepRow) -> None:
        self._steps_back += 1
        if self._steps_back > _MOST_STEPS_BACK:
            raise Refused(
                "unstable_preconditions",
                where=f"{row.step} of {self.context.flow.name}",
                evidence=f"{self._steps_back} times a fence or a freeze had to be renewed; is"
                f" {self.context.flow.source} coming and going?",
            )

    def _stop_if_asked(self, _row: StepRow) -> None:
        if self.context.is_stopped():
            raise StopAsked

    def _guarded(self, row: StepRow, work: Callable[[StepRow], None]) -> None:
        """Journal what a step raises, unless the lock is lost: then no entry may be written."""
        try:
            try:
                work(row)
            except RawError as error:
                # Another class: a watch ignores a request without an answer, and reports a held run.
                where = f"{row.step} of {self.context.flow.name}"
                raise Failed(
                    error.code, where=where, evidence=error.evidence, hint="see drkit status"
                ) from error
            except StopAsked as asked:
                raise interrupted(self.context, self.journal.run, row, changed=self._has_changed) from asked
        except RunLocked:
            raise
        except DrkitError as error:
            self._held(row.step, error)
            raise

    def _held(self, step: StepName, error: DrkitError) -> None:
        aborting = self.journal.run.state is RunState.ABORTING
        if not aborting and not self._has_changed:
            body = {"state": RunState.REFUSED.value, "step": step.value, "error": error.as_dict()}
            self.journal.write(EntryKind.END, None, "", body)
            return
        if not any(option in error.hint for option in ("--resume", "--abort")):
            command = self._table.abort if aborting else self._table.resume
            error.hint = "; then: ".join(filter(None, (error.hint, str(command))))
        self.journal.write(EntryKind.HELD, step, "", {"error": error.as_dict()})

    def _run(self, row: StepRow) -> None:
        context, step = self.context, self.steps[row.step]
        self._patient(row.step, partial(step.announce, context, begun=self._opened))
        self._stop_if_asked(row)  # the looks since the last question may take long
        began = context.clock()
        self._tell(row.step, row.does)
        self.journal.write(EntryKind.INTENT, row.step, "", {})
        done, proof = self._worked(row.step)
        body: dict[str, Any] = {
            "evidence": done.evidence,
            "notes": [*done.notes, *proof.notes],
            "proof": proof.evidence,
            "seconds": round(context.clock() - began, 3),
        }
        self.journal.write(EntryKind.RESULT, row.step, "", body)
        for note in done.notes:
            self._tell(row.step, note)

    def _worked(self, name: StepName) -> tuple[StepResult, StepResult]:
        """Return the result and the proof of a step."""

        def work() -> tuple[StepResult, StepResult]:
            done = self.steps[name].run(self.context)
            # Only the step's own proof sees its evidence until it is proven.
            self.journal.found[name] = done.evidence
            return done, self.steps[name].prove(self.context)

        return self._patient(name, work)

    def _patient(self, name: StepName, work: Callable[[], T]) -> T:
        """Return the result of `work`; repeat it while a broker goes away."""
        context, deadline = self.context, float("inf")
        while True:
            try:
                return self._awake(name, work)
            except ClusterUnreachable as error:
                deadline = min(deadline, context.clock() + _AGAIN_SECONDS)
                if context.clock() >= deadline or context.is_stopped():
                    raise
                self._tell(name, f"again, a broker did not answer: {error.in_short}")
                context.forget_admin()
                context.drop_source()
                context.run(context.loop.sleep, _PAUSE_SECONDS)

    def _awake(self, name: StepName, work: Callable[[], T]) -> T:
        """Return the result of `work`; repeat it after a pause of this process, if it still holds the run."""
        while True:
            try:
                with permitted_by(self.stall.ask):
                    return work()
            except UNEXPECTED as error:
                where = f"{name} of {self.context.flow.name}"
                raise unexpected(error, where, self._table.command) from error
            except ProcessSuspended:
                self._tell(name, "this process was suspended: the journal is read again")
                self.stall.renew()
                self.journal.confirm()

    def _undo(self, row: StepRow) -> None:
        self._tell(row.step, "rolled back")
        self.journal.write(EntryKind.UNDO, row.step, "", {})
        done = self._patient(row.step, lambda: self.steps[row.step].undo(self.context))
        self.journal.write(
            EntryKind.UNDONE, row.step, "", {"evidence": done.evidence, "notes": list(done.notes)}
        )

    def _tell(self, step: StepName, what: str) -> None:
        self.context.tell(StepProgress(step, what))


def refuse_late_abort(run: RunLog, *left: str) -> None:
    """Refuse an abort after the point of no return, or to leave topics and groups of the run behind."""
    if not run.abortable:
        raise Refused(
            "point_of_no_return",
            where=": ".join((f"run {run.run_id}", *left)),
            evidence=f"{run.last_step} has begun: clients may have written to the new primary"
            if run.table is FAILOVER
            else f"{run.last_step} has begun: every topic is copied by the other direction",
            hint=f"finish it: {run.table.resume}; to move back, protect the new primary first",
            last_abort=run.table.last_abort,
        )
