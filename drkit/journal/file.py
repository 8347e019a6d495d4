"""A copy of the journal as a file on this machine: one line an entry, written before the target's topic.

The target's topic decides; the file shows whether that topic lost entries. A failed write is logged and does
not stop the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
import os
from pathlib import Path
from typing import IO

from drkit import observe
from drkit.errors import Failed, Refused
from drkit.journal.entries import RUN_ID, JournalEntry
from drkit.private_file import open_private


def default_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return this user's journal folder: ``drkit/failover`` in the state folder (XDG base directories)."""
    home = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home, "drkit", "failover")


def folder_of(configured: str | None) -> Path:
    """Return the journal folder of this machine.

    :param configured: ``journal_folder`` of ``[failover]``
    """
    return Path(configured).expanduser() if configured else default_folder()


def path_of(folder: Path, run_id: str, ending: str) -> Path:
    """Return the file of a run. The id may come from the target, so it must not be a path.

    :raises Refused: no run of drkit has this id
    """
    if not RUN_ID.fullmatch(run_id):
        raise Refused("journal_foreign_run", where=str(folder), evidence=f"run id {run_id[:80]!r}")
    return folder / f"{run_id}.{ending}"


def open_kept(path: Path, mode: str) -> IO[str]:
    """Open a private file of a run: a journal names topics, groups and persons. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return open(path, mode, encoding="utf-8", opener=open_private)


class JournalFile:
    """The lines of one run that this machine wrote.

    :param folder: created with the first line
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self.path = path_of(folder, run_id, "jsonl")
        self.trouble = ""
        """The reason why lines are missing, or empty if the file is complete."""

    def append(self, entry: JournalEntry) -> None:
        """Write a line and sync it to disk; only the first failure is logged."""
        try:
            with open_kept(self.path, "a") as file:
                file.write(entry.to_json() + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if not self.trouble:
                observe.event("failover_file_lost", level="warning", path=str(self.path), evidence=str(error))
            self.trouble = str(error)

    def remove(self) -> None:
        """Delete the file of a run that never began."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def entries(self) -> list[JournalEntry]:
        """Return the entries that this machine wrote, without a line truncated by a crash.

        :raises Failed: the file cannot be read
        """
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise Failed("journal_copy_unreadable", where=str(self.path), evidence=str(error)) from error
        found = []
        for line in lines[:-1]:
            try:
                found.append(JournalEntry.from_json(line))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return found

    def compare(self, log: Iterable[JournalEntry]) -> None:
        """Check that the target's journal has the entries that this machine wrote.

        The last entry of each process may be missing there: the process was killed or overtaken before it
        reached the target.

        :raises Refused: other entries are missing, so the target's journal lost acknowledged entries
        """
        known = {(e.by, e.number): e for e in log}
        written = self.entries()
        last = {e.by: e.number for e in written}
        for entry in written:
            if known.get((entry.by, entry.number)) == entry or entry.number == last[entry.by]:
                continue
            evidence = f"entry {entry.number} ({entry.kind} {entry.step or ''} {entry.effect})".rstrip()
            raise Refused("journal_entry_lost", where=str(self.path), evidence=evidence)


def files_in(folder: Path) -> list[JournalFile]:
    """Return the journals of all runs in a folder, sorted by run id."""
    names = sorted(path.stem for path in folder.glob("*.jsonl"))
    return [JournalFile(folder, name) for name in names if RUN_ID.fullmatch(name)]
