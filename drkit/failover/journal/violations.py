"""Whether a run's entries follow its table. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from drkit.failover.core.machine import RunState, StepName, Table
from drkit.failover.journal.entries import EntryKind, JournalEntry, RunLog


def violations(run: RunLog) -> list[str]:
    """Return where a run's entries do not follow the table; empty for every run that drkit made."""
    found: list[str] = []
    table = run.table
    done: list[StepName] = []
    begun: StepName | None = None
    acted: StepName | None = None
    aborting = False
    for number, entry in enumerate(run.entries):
        at = f"entry {number} ({entry.kind})"
        aborting = aborting or entry.kind is EntryKind.ABORT
        if entry.effect or entry.kind is EntryKind.RESULT:
            acted = entry.step
        late = begun is not None and not table.row[begun].abortable
        late = late and begun is not None and (not table.row[begun].until_effect or acted is begun)
        if entry.kind is EntryKind.ABORT and late:
            found.append(f"{at}: an abort after {table.last_abort}")
        if entry.kind not in {EntryKind.INTENT, EntryKind.RESULT} or entry.step is None:
            continue
        if aborting:
            found.append(f"{at}: {entry.step} after the abort")
        found += [f"{at}: {what}" for what in _out_of_order(table, entry, begun, done)]
        if entry.kind is EntryKind.INTENT and not entry.effect:
            begun = entry.step
        elif not entry.effect and entry.step not in done:
            done.append(entry.step)
    if run.state is RunState.DONE and tuple(done) != table.order:
        found.append(f"it is done, but only {', '.join(done)} ended")
    return found


def _out_of_order(
    table: Table, entry: JournalEntry, begun: StepName | None, done: list[StepName]
) -> Iterator[str]:
    step = entry.step
    assert step is not None  # noqa: S101  the caller looked
    if entry.effect:
        if begun is not step:
            yield f"an effect of {step} in {begun}"
    elif entry.kind is EntryKind.RESULT:
        if begun is not step:
            yield f"the end of {step} without its beginning"
    elif missing := [s for s in table.order[: table.order.index(step)] if s not in done]:
        yield f"{step} before {missing[0]}"
