"""Keys that were deleted on a compacted source and live on the target: no tombstone was copied. Pure.

The source removes a record only in favour of a later one of its key, and a tombstone only after all earlier
ones. So a key that has a value on the target and no record on the source was deleted there. Both logs change
while they are compared: what is left then is looked up in both once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from drkit.living_keys import LivingKeys
from drkit.verify.compare import (
    FINDINGS,
    ConsumedRecord,
    Counts,
    Difference,
    DifferenceKind,
    RecordLocator,
    preview,
)

Read = Callable[[int, int], Iterable[ConsumedRecord]]
"""Reads the records of a range of offsets."""


class SourceAgain(NamedTuple):
    """The source after the comparison."""

    read: Read
    span: tuple[int, int]
    """The offsets that were compared."""
    end: Callable[[], int]
    """The current last stable offset."""
    start: Callable[[], int]
    """The current first offset: earlier records were not deleted by their key."""


class TargetAgain(NamedTuple):
    """The target after the comparison."""

    read: Read
    read_all: Read
    """With open transactions: a tombstone that is being copied is there."""
    compared_to: int
    end: Callable[[], int]
    """The current end of the log."""


def find_outlived(
    living: LivingKeys, places: RecordLocator, source: SourceAgain, target: TargetAgain
) -> tuple[Counts, list[Difference]]:
    """Judge keys whose newest record is on the target alone; returns counts to add, and the first findings.

    :param living: the keys, with the offsets of these records
    """
    first, frontier = source.span
    for start, end in ((frontier, source.end), (first, lambda: frontier)):
        if living.number():
            for record in source.read(start, end()):
                living.drop(record.key)
    if not living.number():
        return Counts(), []
    found = _Again(living, places, source.start())
    found.take(target.read(found.first, target.compared_to))
    found.take(target.read_all(target.compared_to, target.end()))
    number = found.living.number()
    return Counts(outlived=number, deleted_at_source=-number), found.findings()


class _Again:
    """The target, read again: which of these records still exist and are the newest of their keys."""

    def __init__(self, living: LivingKeys, places: RecordLocator, source_start: int) -> None:
        self._wanted = living.offsets()
        self._next = 0
        self._places, self._source_start = places, source_start
        self._seen: dict[int, Difference] = {}
        self.living = LivingKeys()

    @property
    def first(self) -> int:
        """The first offset to read."""
        return self._wanted[0]

    def take(self, copy: Iterable[ConsumedRecord]) -> None:
        """Take the next records of the target."""
        for record in copy:
            while self._next < len(self._wanted) and self._wanted[self._next] < record.offset:
                self._next += 1
            is_wanted = self._next < len(self._wanted) and self._wanted[self._next] == record.offset
            origin = self._places.source_of(record.offset) if is_wanted else None
            lives = origin is not None and origin >= self._source_start
            self.living.take(record.key, record.offset, has_value=lives)
            if lives and len(self._seen) < FINDINGS:
                text = f"the source has no record of its key: {preview(record)}"
                self._seen[record.offset] = Difference(
                    DifferenceKind.OUTLIVED, origin, record.offset, evidence=text
                )

    def findings(self) -> list[Difference]:
        """The first of the records that are left."""
        left = set(self.living.offsets())
        return [found for offset, found in self._seen.items() if offset in left]
