"""Find runs that the target's journal does not have, and entries that break the rules of a journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
import json
from pathlib import Path

from drkit.counted import counted
from drkit.errors import DrkitError, Refused
from drkit.journal.entries import EntryKind, JournalEntry, RunLog, read_history
from drkit.journal.file import JournalFile, files_in, path_of
from drkit.journal.journal import NoRun
from drkit.journal.machine import RunState, Table


def explained(error: NoRun, folder: Path, flow: str) -> DrkitError:
    """Return the error with the findings in the files; unchanged if they have no run that is under way.

    :param folder: this machine's journals
    """
    runs = left_runs(folder, flow, error.runs, error.target_id)
    if not runs:
        return error
    newest = runs[0]
    more = f"; and {len(runs) - 1} more runs there" if len(runs) > 1 else ""
    where = f"{error.where}; {JournalFile(folder, newest.run_id).path}"
    return Refused("journal_run_lost", where=where, evidence=f"{_described(newest)}{more}")


def left_runs(
    folder: Path, flow: str, known: Collection[str] = (), target_id: str | None = None
) -> list[RunLog]:
    """Return the runs that are under way by this machine's files, the newest first.

    :param flow: runs whose report names another flow are skipped
    :param known: runs in the target's journal
    :param target_id: runs to another cluster with the same alias are skipped; None if the id is unknown
    """
    runs = []
    for file in files_in(folder):
        run = read_history(file.entries()).open
        if run is None or run.run_id in known or _flow_of(folder, run) not in {None, flow}:
            continue
        if run.opening.get("target_id") in {None, target_id} or target_id is None:
            runs.append(run)
    return sorted(runs, key=lambda r: r.entries[-1].at_ms, reverse=True)


def _flow_of(folder: Path, run: RunLog) -> str | None:
    try:
        report = json.loads(path_of(folder, run.run_id, "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report.get("flow") if isinstance(report, dict) else None


def _described(run: RunLog) -> str:
    last = run.entries[-1]
    time = datetime.fromtimestamp(last.at_ms / 1000, UTC).isoformat(timespec="seconds")
    entry = " ".join(filter(None, (last.kind.value, last.step, last.effect)))
    done = ", ".join(step for step in run.table.order if step in run.results) or "none"
    topics = run.scope.get("topics", {})
    return (
        f"run {run.run_id}, term {run.term}, {counted(len(topics), 'topic')}: {run.state.value};"
        f" steps that ended: {done}; its last entry is '{entry}' of {time}"
    )


def violations(run: RunLog) -> list[str]:
    """Return where a run's entries do not follow the table; empty for every run that drkit made."""
    faults: list[str] = []
    table = run.table
    done: list[str] = []
    active: str | None = None
    acted: str | None = None
    aborting = False
    for number, entry in enumerate(run.entries):
        where = f"entry {number} ({entry.kind})"
        aborting = aborting or entry.kind is EntryKind.ABORT
        if entry.effect or entry.kind is EntryKind.RESULT:
            acted = entry.step
        late = active is not None and not table.row[active].abortable
        late = late and active is not None and (not table.row[active].until_effect or acted is active)
        if entry.kind is EntryKind.ABORT and late:
            faults.append(f"{where}: an abort after {table.last_abort}")
        if entry.kind not in {EntryKind.INTENT, EntryKind.RESULT} or entry.step is None:
            continue
        if aborting:
            faults.append(f"{where}: {entry.step} after the abort")
        faults += [f"{where}: {fault}" for fault in _out_of_order(table, entry, active, done)]
        if entry.kind is EntryKind.INTENT and not entry.effect:
            active = entry.step
        elif not entry.effect and entry.step not in done:
            done.append(entry.step)
    if run.state is RunState.DONE and tuple(done) != table.order:
        faults.append(f"it is done, but only {', '.join(done)} ended")
    return faults


def _out_of_order(table: Table, entry: JournalEntry, active: str | None, done: list[str]) -> Iterator[str]:
    step = entry.step
    assert step is not None  # noqa: S101  the caller looked
    if entry.effect:
        if active is not step:
            yield f"an effect of {step} in {active}"
    elif entry.kind is EntryKind.RESULT:
        if active is not step:
            yield f"the end of {step} without its beginning"
    elif missing := [s for s in table.order[: table.order.index(step)] if s not in done]:
        yield f"{step} before {missing[0]}"
