"""The history of drills: a folder for each drill with its entry and report, and a file of missed times."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
import json
import os
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from drkit.config import Settings
from drkit.config.tables.closest import suggestion
from drkit.config.tables.drills import DrillSettings
from drkit.drill.plan import DRILL_ID, DrillPlan
from drkit.drill.report.model import DrillReport, read_report
from drkit.drill.settings import drill_folder
from drkit.errors import Failed, Usage
from drkit.local.file_lock import locked_alone

MISSED, UNFINISHED = "missed", "unfinished"
"""Verdicts of drills that have no report. ``unfinished``: it is running, or its process was killed."""
REPORT: Final = "report.json"
_ENTRY: Final = "entry.json"
_NOT_RUN: Final = "not-run.jsonl"
_FIRST_STARTS: Final = "schedule.json"


class DrillEntry(BaseModel):
    """A drill, or a due time at which none was run; milliseconds since 1970."""

    model_config = ConfigDict(frozen=True)

    id: str = ""
    """Empty: it was not run."""
    name: str
    kind: str
    flow: str = ""
    verdict: str
    began_ms: int
    """When it began; of one that was not run, when it was due."""
    seconds: float | None = None
    due_ms: int | None = None
    """The due time of its schedule; None: a person started it."""
    hash: str = ""
    """Of its report."""
    reason: str = ""


class DrillHistory:
    """The drills of one folder, the oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, settings: Settings) -> DrillHistory:
        """Return the history below the configured journal folder."""
        return cls(drill_folder(settings, "any").parent)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the history: one drill runs at a time.

        :raises Refused: another process runs a drill
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        hint = "wait until it ends: drkit drill history"
        return locked_alone(self.folder / ".lock", "another drill is running", hint)

    def entries(self, name: str | None = None) -> list[DrillEntry]:
        """Return the drills and the due times without one, the oldest first.

        :param name: of the only drill to return; None: all
        """
        texts = [path.read_text(encoding="utf-8") for path in self.folder.glob(f"*/{_ENTRY}")]
        if (path := self.folder / _NOT_RUN).exists():
            texts += path.read_text(encoding="utf-8").splitlines()
        found = [entry for entry in map(_entry, texts) if entry is not None and name in {None, entry.name}]
        return sorted(found, key=lambda entry: (entry.began_ms, entry.id))

    def last_due(self, name: str) -> datetime | None:
        """Return the latest due time of a drill that has an entry, None without one."""
        due = [entry.due_ms for entry in self.entries(name) if entry.due_ms is not None]
        return datetime.fromtimestamp(max(due) / 1000, UTC) if due else None

    def first_start(self, name: str, now: datetime) -> datetime:
        """Return when the scheduler first knew a drill, now if it is new."""
        path = self.folder / _FIRST_STARTS
        starts: dict[str, int] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if name not in starts:
            starts[name] = round(now.timestamp() * 1000)
            _replace(path, json.dumps(starts))
        return datetime.fromtimestamp(starts[name] / 1000, UTC)

    def last_hash(self, name: str) -> str:
        """Return the hash of the last report of a drill, empty without one."""
        return next((entry.hash for entry in reversed(self.entries(name)) if entry.hash), "")

    def record_begin(self, plan: DrillPlan, began_ms: int, due: datetime | None) -> DrillEntry:
        """Write the entry of a drill that begins, and return it."""
        entry = DrillEntry(
            id=plan.id,
            name=plan.name,
            kind=plan.kind,
            flow=plan.flow,
            verdict=UNFINISHED,
            began_ms=began_ms,
            due_ms=None if due is None else round(due.timestamp() * 1000),
        )
        (self.folder / plan.id).mkdir(mode=0o700)
        self._write(entry)
        return entry

    def record_end(self, entry: DrillEntry, report: DrillReport, seconds: float) -> None:
        """Write the report of a drill, then its entry."""
        _replace(self.report_path(entry.id), report.to_json())
        end = {"verdict": report.verdict, "seconds": round(seconds, 3), "hash": report.self_hash}
        self._write(entry.model_copy(update=end))

    def record_not_run(
        self, drill: DrillSettings, due: Iterable[datetime], verdict: str, reason: str = ""
    ) -> list[DrillEntry]:
        """Append an entry for each due time at which a drill was not run, and return them."""
        times = [round(time.timestamp() * 1000) for time in due]
        entries = [
            DrillEntry(
                name=drill.name,
                kind=drill.kind,
                flow=drill.flow or "",
                verdict=verdict,
                began_ms=time,
                due_ms=time,
                reason=reason,
            )
            for time in times
        ]
        if entries:
            with (self.folder / _NOT_RUN).open("a", encoding="utf-8") as file:
                # The first new line ends a line that an earlier process did not finish.
                file.write("".join(f"\n{entry.model_dump_json()}" for entry in entries) + "\n")
                file.flush()
                os.fsync(file.fileno())
        return entries

    def report_path(self, drill_id: str) -> Path:
        """Return the file of a report."""
        return self.folder / drill_id / REPORT

    def report(self, drill_id: str) -> DrillReport:
        """Return the report of a drill.

        :raises Usage: no drill has this id
        :raises Failed: it has no report, or its file is not one
        """
        entries = {entry.id: entry for entry in self.entries() if entry.id}
        if DRILL_ID.fullmatch(drill_id) is None or drill_id not in entries:
            raise Usage(
                f"there is no drill with the id {drill_id}",
                where=str(self.folder),
                hint=f"{suggestion(drill_id, entries)}; all: drkit drill history",
            )
        path = self.report_path(drill_id)
        if not path.exists():
            raise Failed(
                "this drill has no report",
                where=drill_id,
                evidence=f"its verdict is {entries[drill_id].verdict}",
                hint="it is still running, or its process was killed: drkit drill history",
            )
        return read_report(path.read_bytes())

    def report_before(self, report: DrillReport) -> DrillReport | None:
        """Return the report whose hash a report has as `previous`, None if it is not in this folder."""
        for entry in self.entries(report.plan.name):
            if entry.hash and entry.hash == report.previous:
                return self.report(entry.id)
        return None

    def _write(self, entry: DrillEntry) -> None:
        _replace(self.folder / entry.id / _ENTRY, entry.model_dump_json())


def _entry(text: str) -> DrillEntry | None:
    """Return the entry in a text, None where there is none: a process may die while it writes a line."""
    try:
        return DrillEntry.model_validate_json(text)
    except ValidationError:
        return None


def _replace(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old text or the new one."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
