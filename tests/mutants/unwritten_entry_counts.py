"""A drkit that continues a run while its journal cannot be written."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from unittest.mock import patch

from drkit.errors import ClusterUnreachable
from drkit.exercise.checks import JOURNAL
from drkit.journal.entries import JournalEntry
from drkit.journal.journal import Journal

BROKEN: Final = "an unconfirmed entry of the journal counts as written"
SCENARIO: Final = "disk-full-standby"
CAUGHT_BY: Final = JOURNAL


def apply() -> None:
    """Break this process."""
    to_topic = Journal._to_topic

    def try_once(self: Journal, entry: JournalEntry) -> None:
        with suppress(ClusterUnreachable):
            to_topic(self, entry)

    patch.object(Journal, "_to_topic", try_once).start()
