"""Journal files of this machine, written as a run writes them."""

from __future__ import annotations

from pathlib import Path

from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.file import JournalFile
from drkit.journal.machine import StepName

NOON_MS = 1_763_812_800_000


def write(folder: Path, run: str, *steps: StepName, at_ms: int = NOON_MS, ended: bool = False) -> None:
    """The file of a run that was killed after some steps."""
    opening = {"scope": {"topics": {"orders": "orders"}}, "holder": {"token": "t"}}
    said = [
        (EntryKind.RUN, None, opening),
        *((k, s, {}) for s in steps for k in (EntryKind.INTENT, EntryKind.RESULT)),
    ]
    said += [(EntryKind.END, None, {"state": "done"})] if ended else []
    file = JournalFile(folder, run)
    for number, (kind, step, body) in enumerate(said):
        file.append(JournalEntry(run, number, "t", 3, kind, step, "", at_ms + number * 1000, body))
