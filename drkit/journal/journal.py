"""One process's lock on the journal of a run; it writes an entry before and after every effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
import uuid

from drkit.clock import Millis, Seconds, boottime, monotonic, wall_ms
from drkit.errors import Refused, Usage
from drkit.flow_state.processes import holder_of, lives_here, this_process
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.file import JournalFile
from drkit.journal.machine import StepName
from drkit.journal.stall import LONGEST_SECONDS
from drkit.journal.topic import JournalFenced, JournalTopic
from drkit.kafka.raw import EventLoop
from drkit.kafka.transport import permitted_by

_TRIES: Final = 5
"""Number of times the lock is taken back from a process that only asked for it."""
_RENEW_SECONDS: Final = 4.0
"""Longest time between entries while a step waits; each entry shows that the process lives."""
OUTLIVE_SECONDS: Final = 12.0
"""A process on another machine that writes no entry for this time has left its run."""
_LOOK_SECONDS: Final = 0.5


class RunLocked(Refused):
    """Another orchestrator works on the run."""


class NoRun(Usage):
    """The journal on the target has no run that is under way."""

    runs: frozenset[str] = frozenset()
    """Ids of the runs in the journal."""
    target_id: str | None = None
    """Id of the journal's cluster, or None if unknown."""


class NoJournal:
    """The part of a journal that steps use; without a run it has only evidence for later steps."""

    def __init__(self) -> None:
        self.found: dict[StepName, dict[str, Any]] = {}
        """Evidence of steps that are being proven or rehearsed; a journal gets it after the proof."""

    def result(self, step: StepName) -> dict[str, Any] | None:
        """Return the evidence of a step that ended, also in an earlier process; None when it did not end."""
        return self.found.get(step)

    def renew(self) -> None:
        """Record that this process lives, if it has written nothing for a while."""

    def effects(self, step: StepName) -> dict[str, dict[str, Any]]:  # noqa: ARG002  the contract's
        """Return the effects begun in a step: name → ``intent``, and ``result``, None when it is unknown."""
        return {}

    def effect(
        self, step: StepName, name: str, details: Mapping[str, Any]
    ) -> AbstractContextManager[dict[str, Any]]:
        """Refuse an effect: without a run there is none. See :meth:`.Context.effect`."""
        raise AssertionError(f"{step} would have had the effect {name} in a dry run: {details}")


class Journal(NoJournal):
    """The lock and the writer of one process.

    :param topic: whose history was read
    :param file: the copy on this machine
    """

    def __init__(
        self,
        loop: EventLoop,
        topic: JournalTopic,
        file: JournalFile,
        run_id: str,
        *,
        wall: Millis = wall_ms,
        clock: Seconds = monotonic,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._topic = topic
        self._file = file
        self._wall, self._clock = wall, clock
        self._written = clock()
        self._step: StepName | None = None
        """The step that is under way."""
        self._held_before = ""
        """Token of the holder that this process takes over from."""
        self.run_id = run_id
        self.token = uuid.uuid4().hex[:12]
        self.term = 0

    @property
    def run(self) -> RunLog:
        """The run as recorded in the log."""
        return self._topic.history.runs[self.run_id]

    def begin(self, least_term: int, opening: Mapping[str, Any]) -> None:
        """Begin a new run, unless one is under way.

        :param least_term: larger than any term known elsewhere
        :param opening: scope, request and decision
        :raises RunLocked: another run is under way, or was a moment faster
        """
        self._loop.run(self._topic.read)
        refuse_open(self._topic)
        self.term = max(least_term, self._topic.history.term + 1)
        self._loop.run(self._topic.take_epoch)
        try:
            self._write(0, EntryKind.RUN, None, "", {**opening, "holder": self._holder()})
            if self.run_id not in self._topic.history.runs:
                refuse_open(self._topic)
                assert self._topic.history.last is not None  # noqa: S101  another run began first
                raise taken(self._topic.history.last, "it began a moment earlier")
        except RunLocked:
            self._file.remove()  # this run never began
            raise

    def take_over(self, request: Mapping[str, Any], *, at_once: bool = False) -> None:
        """Continue a run that another process left.

        :param request: what was requested in addition
        :param at_once: do not check whether a process on another machine still writes
        :raises RunLocked: that process lives, or another one was faster
        """
        self.term = max(self.run.term, int(request.get("term", 0)))
        # A process that lives but has left the run, as `drkit watch` does, does not block others.
        lives = not self.run.is_left and lives_here(holder_of(self.run.holder))
        if lives:
            raise taken(self.run, "the process that works at it lives")
        if lives is None and not at_once:
            self._outlive()
        self._file.compare(self.run.entries)
        self._held_before = str(self.run.holder.get("token"))
        self._loop.run(self._topic.take_epoch)
        self.write(EntryKind.HOLD, None, "", {"holder": self._holder(), "request": dict(request)})

    def _outlive(self) -> None:
        """Return when the run's process, on another machine, has left it. Raises RunLocked: it still writes.

        Clocks of two machines differ, so only entries written while this process waits count.
        """
        known, deadline = len(self.run.entries), self._clock() + OUTLIVE_SECONDS
        while not self.run.is_left and self._clock() < deadline:
            self._loop.run(self._loop.sleep, _LOOK_SECONDS)
            self._loop.run(self._topic.read)
            if len(self.run.entries) > known and not self.run.is_left:
                raise taken(self.run, "it wrote an entry while this process looked on")

    def _holder(self) -> dict[str, Any]:
        return {**this_process().to_json(), "token": self.token}

    def write(self, kind: EntryKind, step: StepName | None, effect: str, body: Mapping[str, Any]) -> None:
        """Write an entry: on the local disk, then on the target, then read back.

        :raises RunLocked: another orchestrator took over; nothing more may be done
        """
        self._write(self.run.entries[-1].number + 1, kind, step, effect, dict(body))

    def _write(
        self, number: int, kind: EntryKind, step: StepName | None, effect: str, body: dict[str, Any]
    ) -> None:
        entry = JournalEntry(self.run_id, number, self.token, self.term, kind, step,
                      effect=effect, at_ms=self._wall(), body=body)  # fmt: skip
        if not effect and kind in {EntryKind.INTENT, EntryKind.RESULT, EntryKind.HELD, EntryKind.UNDO}:
            self._step = step if kind is EntryKind.INTENT else None
        began = boottime()
        with permitted_by(None):  # the log itself refuses entries of an overtaken process
            self._to_file(entry)
            self._to_topic(entry)
            if kind is EntryKind.INTENT and boottime() - began > LONGEST_SECONDS:
                self.confirm()  # an effect must not follow an old intent
        self._written = self._clock()

    def renew(self) -> None:
        """Write an entry after a while without one: others see that this process lives."""
        if self._step is not None and self._clock() - self._written >= _RENEW_SECONDS:
            self.write(EntryKind.INTENT, self._step, "", {"renewed": True})

    def _to_file(self, entry: JournalEntry) -> None:
        self._file.append(entry)

    def _to_topic(self, entry: JournalEntry) -> None:
        for _ in range(_TRIES):
            try:
                alone = self._loop.run(self._topic.append, entry)
            except JournalFenced:
                self._loop.run(self._topic.read)
                self._still_ours(entry)
                if self.run_id in self._topic.history.runs and entry in self.run.entries:
                    return
                # The process with the newer epoch only asked for the lock and wrote no valid entry.
                self._loop.run(self._topic.take_epoch)
                continue
            if not alone:
                self._still_ours(entry)
            return
        raise taken(self.run, f"the lock was taken away {_TRIES} times")

    def confirm(self) -> None:
        """Read the log again after this process was suspended: another may have taken over.

        :raises RunLocked: another process took over
        """
        self._loop.run(self._topic.read)
        if self.run.state.is_over or str(self.run.holder.get("token")) != self.token:
            raise taken(self.run, "it took over while this process stood still")

    def _still_ours(self, entry: JournalEntry) -> None:
        """Check in the log that this process still holds the run. Raises RunLocked: another one does."""
        if entry.kind is EntryKind.RUN:
            if self.run_id not in self._topic.history.runs:
                refuse_open(self._topic)
            return
        allowed = {self.token, self._held_before} if entry.kind is EntryKind.HOLD else {self.token}
        if str(self.run.holder.get("token")) not in allowed:
            raise taken(self.run, "it took over")

    def result(self, step: StepName) -> dict[str, Any] | None:
        """Return the evidence of a step by the run's entries, or None when it did not end."""
        known = self.run.results.get(step, {}).get("evidence")
        return self.found.get(step, known)

    def effects(self, step: StepName) -> dict[str, dict[str, Any]]:
        """Return the effects of a step by the run's entries."""
        return self.run.effects.get(step, {})

    @contextmanager
    def effect(self, step: StepName, name: str, details: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Write the intent before an effect, and its outcome afterwards."""
        self.write(EntryKind.INTENT, step, name, details)
        outcome: dict[str, Any] = {}
        yield outcome
        self.write(EntryKind.RESULT, step, name, outcome)


def refuse_open(topic: JournalTopic) -> None:
    """Refuse to begin a run. Raises RunLocked: one is under way."""
    run = topic.history.open
    if run is not None:
        gone = lives_here(holder_of(run.holder)) is False
        raise taken(run, "its process is gone" if gone else "it is under way")


def taken(run: RunLog, why: str) -> RunLocked:
    """Return the error that names a run's holder and its progress."""
    holder, last = run.holder, run.entries[-1]
    age = max(0, wall_ms() - last.at_ms) / 1000
    step = run.last_step or "its beginning"
    return RunLocked(
        "run_locked",
        where=f"host {holder.get('host')}, process {holder.get('pid')}, run {run.run_id}, term {run.term}",
        evidence=f"{why}; it is {run.state} at {step}, its last entry was written {age:.1f} s ago",
        hint=f"let it finish; if its process is dead: {run.table.command} --resume"
        + (f", or {run.table.command} --abort" if run.abortable else "")
        + " (--take-over does not look whether it still writes)",
        table=run.table.name,
    )


def open_run(topic: JournalTopic, verb: str, target_id: str | None) -> RunLog:
    """Return the run that is under way. Raises NoRun: the journal has none."""
    if topic.history.open is None:
        last = topic.history.last
        evidence = "the target's journal has none"
        if last is not None:
            evidence = f"the last run was the {last.table.name} {last.run_id}: {last.state}"
        error = NoRun("no_run", where=topic.where, evidence=evidence, verb=verb)
        error.runs, error.target_id = frozenset(topic.history.runs), target_id
        raise error
    return topic.history.open
