"""The run that is under way, from the history of a journal. Pure.

`drkit status` only shows the journal, so its reader is tolerant: what a later drkit wrote may be in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from drkit.flow_state.processes import holder_of, lives_here
from drkit.flow_state.records import Process
from drkit.journal.entries import EntryKind, JournalHistory, RunLog
from drkit.journal.machine import TABLES, RunState, StepName

_SILENT_SECONDS: Final = 15.0
"""A process that waits in a step writes an entry every 4 s."""
_SILENT_ELSEWHERE_SECONDS: Final = 60.0
"""For a process on another machine, whose clock may differ."""


class RunUnderWay(NamedTuple):
    """A run that has not ended."""

    run_id: str
    table: str
    topics: frozenset[str]
    """Names of the topics in its scope, on either side; empty: unknown, so any."""
    step: str = ""
    """The newest step that began; empty: none has begun."""
    held: str = ""
    """Why it waits for a person; empty: it does not."""
    aborting: bool = False
    has_opened: bool = False
    """Whether its step OPEN has begun: it is not aborted any more."""

    @classmethod
    def of(cls, run: RunLog) -> Self:
        """Return what is shown of a run."""
        topics = _part(run.opening, "scope").get("topics")
        names = [*topics, *topics.values()] if isinstance(topics, dict) else topics
        begun = (e.step for e in reversed(run.entries) if e.kind is EntryKind.INTENT and not e.effect)
        error = run.held.get("error", {}) if run.is_left else None
        text = error.get("error") if isinstance(error, dict) else error
        return cls(
            run.run_id,
            run.table_name,
            frozenset(map(str, names if isinstance(names, list) else ())),
            step=str(next(begun, "")),
            held=str(text or "it was refused") if run.is_left else "",
            aborting=run.state is RunState.ABORTING,
            has_opened=StepName.OPEN in run.begun,
        )

    def covers(self, *names: str) -> bool:
        """Return whether a topic with one of these names may be in its scope."""
        return not self.topics or not self.topics.isdisjoint(names)

    @property
    def in_words(self) -> str:
        """The step, and why it is held."""
        doing = f"rolling back, last {self.step or 'LOCK'}" if self.aborting else self.step or "LOCK"
        return f"{doing}, held: {self.held}" if self.held else doing

    def with_commands(self, flow: str) -> str:
        """The run, its step, and, while it is held, its commands.

        :param flow: the name of the flow that its journal is of
        """
        then = f"; when that is cleared: {command}" if (command := self.leads_on(flow)) else ""
        return f"run {self.run_id} at {self.in_words}{then}"

    def leads_on(self, flow: str) -> str:
        """What continues the run, and what rolls it back, as it is typed; empty: no person has to.

        :param flow: the name of the flow that its journal is of
        """
        table = TABLES.get(self.table)
        if not self.held or table is None:
            return ""
        command = table.typed("--flow", flow)
        if self.aborting:
            return f"{command} --abort"
        rolls_back = f"; to roll it back: {command} --abort"
        return f"{command} --resume" + ("" if self.has_opened else rolls_back)


class JournalRuns(NamedTuple):
    """The run that is under way, and the fences of all runs that were not aborted."""

    current: RunUnderWay | None = None
    """The one that is under way; held as well if its process is gone, or has written nothing for too long."""
    fences: Mapping[str, str] = MappingProxyType({})
    """Run → how its step FENCE ended."""
    opened: frozenset[str] = frozenset()
    """Runs past OPEN: whatever the source has on record, their target is open."""
    ids: frozenset[str] = frozenset()
    """Of all runs."""

    @classmethod
    def of(
        cls, history: JournalHistory, now_ms: int, lives: Callable[[Process], bool | None] = lives_here
    ) -> Self:
        """Return these of a journal's history.

        :param lives: whether a process lives, or None if unknown, as for another machine
        """
        runs = {i: run for i, run in history.runs.items() if run.state is not RunState.ABORTED}
        ended = {i: _part(run.results.get(StepName.FENCE, {}), "evidence") for i, run in runs.items()}
        fences = {i: str(evidence.get("how", "")) for i, evidence in ended.items() if evidence}
        current = _seen(history.open, now_ms, lives) if history.open is not None else None
        past = (i for i, run in runs.items() if StepName.OPEN in run.results or run.state is RunState.DONE)
        return cls(current, fences, frozenset(past), frozenset(history.runs))


def _seen(run: RunLog, now_ms: int, lives: Callable[[Process], bool | None]) -> RunUnderWay:
    shown, alive, host = RunUnderWay.of(run), lives(holder_of(run.holder)), run.holder.get("host", "")
    silent = (now_ms - run.entries[-1].at_ms) / 1000
    if shown.held:
        return shown
    if alive is False:
        return shown._replace(held=f"its process {run.holder.get('pid')} on {host} is gone")
    if silent > (_SILENT_SECONDS if alive else _SILENT_ELSEWHERE_SECONDS):
        return shown._replace(held=f"its process on {host} has written nothing for {silent:.0f} s")
    if alive is None and silent < -_SILENT_ELSEWHERE_SECONDS:
        ahead = f"the clock of {host} is {-silent:.0f} s ahead of this one"
        return shown._replace(held=f"whether its process runs is unknown: {ahead}")
    return shown


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = body.get(name)
    return part if isinstance(part, dict) else {}
