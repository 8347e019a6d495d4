"""Offsets of a range that hold no exported record, and why. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class HoleKind(StrEnum):
    """Why an offset holds no exported record."""

    MARKER = "marker"
    """The marker that ends a transaction."""
    ABORTED = "aborted"
    """A record of an aborted transaction."""
    COPIED_BACK = "copied_back"
    """A record that drkit itself copied there from the other cluster."""
    COMPACTED = "compacted"
    """Compaction removed the record: a later one has its key, or it was a tombstone."""
    REMOVED = "removed"
    """Before the start of the log: retention, or DeleteRecords."""


class Hole(NamedTuple):
    """Offsets from `first` up to but without `end`."""

    first: int
    end: int
    kind: HoleKind

    @property
    def offsets(self) -> int:
        """How many they are."""
        return self.end - self.first
