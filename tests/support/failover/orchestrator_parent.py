"""The parent of orchestrators that call the failover service, and wait at boundaries of journal entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from drkit.config import Settings
from drkit.errors import DrkitError
from drkit.exercise import processes
from drkit.exercise.processes import Ended, PausingJournal
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.journal.entries import JournalEntry
from drkit.journal.journal import Journal

MODULE: Final = "tests.support.failover.orchestrator_parent"
SERVICE: Final = "service"
BEFORE, IN_FILE, AFTER = BOUNDARIES = ("before", "file", "after")
"""Times to wait: before an entry is written, when it is in the file only, when it is in the topic."""


class Boundary(NamedTuple):
    """A boundary of an entry."""

    kind: str
    step: str
    effect: str
    when: str


class BoundaryJournal(PausingJournal):
    """A journal whose process waits for leave at boundaries of its entries."""

    boundaries: Sequence[str] = ()

    def _to_file(self, entry: JournalEntry) -> None:
        self._wait(BEFORE, entry)
        super()._to_file(entry)
        self._wait(IN_FILE, entry)

    def _to_topic(self, entry: JournalEntry) -> None:
        Journal._to_topic(self, entry)
        self._wait(AFTER, entry)

    def _wait(self, when: str, entry: JournalEntry) -> None:
        if when in self.boundaries:
            self.wait_at(Boundary(entry.kind, entry.step or "", entry.effect, when))


def run_service(settings: Mapping[str, Any], call: str, arguments: Mapping[str, Any]) -> Ended:
    """Call a method of the first flow's failover service; return what a command with `--json` would."""
    plain = Settings.model_validate(settings)
    read = {n: RunRequest.from_json(v) if isinstance(v, dict) else v for n, v in arguments.items()}
    try:
        with FailoverService(plain, plain.flows[0]) as service:
            return 0, json.dumps(getattr(service, call)(**read)), ""
    except DrkitError as error:
        return error.exit_code, "", json.dumps({**error.as_dict(), "kind": type(error).__name__}, indent=1)


def main() -> None:
    """Run the parent."""
    processes.WORK[SERVICE] = run_service
    patch.object(processes, "PausingJournal", BoundaryJournal).start()
    processes.main()
