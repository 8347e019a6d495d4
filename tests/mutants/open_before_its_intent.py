"""A drkit that opens the standby before its journal says so: a killed one leaves no trace of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import JOURNAL
from drkit.journal.entries import EntryKind
from drkit.journal.journal import Journal
from drkit.journal.machine import StepName

BROKEN: Final = "the intent of OPEN is written after its first effect"
SCENARIO: Final = "orchestrator-killed-at-open"
CAUGHT_BY: Final = JOURNAL


def apply() -> None:
    """Break this process."""
    write, deferred = Journal.write, list[Mapping[str, Any]]()

    def write_late(
        self: Journal, kind: EntryKind, step: StepName | None, effect: str, body: Mapping[str, Any]
    ) -> None:
        if (kind, step, effect) == (EntryKind.INTENT, StepName.OPEN, ""):
            deferred.append(body)
            return
        write(self, kind, step, effect, body)
        if deferred and (kind, step) == (EntryKind.RESULT, StepName.OPEN):
            write(self, EntryKind.INTENT, StepName.OPEN, "", deferred.pop())

    patch.object(Journal, "write", write_late).start()
