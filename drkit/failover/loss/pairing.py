"""Compares the records of a partition with their copies through the offset map. Pure.

Both sides are streams in offset order, and the map pairs them. The comparison ends at the first difference.
It is a generator that yields the side of which it wants the next records, and gets them sent; none are left
where it gets an empty list.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from drkit.offsets import SegmentMap
from drkit.offsets.segments import OPEN, UNKNOWN
from drkit.wire import Piece

ALL: Final = 1 << 62


class Side(Enum):
    """Whose records are wanted."""

    OLD = "old"
    NEW = "new"


class MayLack(NamedTuple):
    """What is no difference."""

    old_compacted: bool = False
    """The old primary's compaction may have removed records that the copy has."""
    new_compacted: bool = False
    new_expires: bool = False
    """The new primary's retention removes the first records by time or size."""


class PairingResult(NamedTuple):
    """What was found up to the first difference."""

    equal: int
    """Records that equal their copies."""
    differs_from: int | None
    """Offset on the old primary of the first record that is not the copied one, is missing, or was never
    copied; None: none."""
    strays: int = 0
    """Records on the new primary that the map does not know."""
    first_stray: int | None = None
    """Offset on the new primary of the first of them."""
    next: int = 0
    """Offset on the old primary after the last equal record."""


class Begin(NamedTuple):
    """Where a comparison begins."""

    old: int
    new: int


Ask = Generator[Side, Sequence[Piece], Piece | None]


class _Stream:
    def __init__(self, side: Side) -> None:
        self._side, self._pieces, self._at, self._ended = side, list[Piece](), 0, False

    def peek(self) -> Ask:
        while self._at == len(self._pieces) and not self._ended:
            self._pieces, self._at = list((yield self._side)), 0
            self._ended = not self._pieces
        return self._pieces[self._at] if self._at < len(self._pieces) else None

    def skip(self) -> None:
        self._at += 1


@dataclass
class _Found:
    equal: int = 0
    next: int = 0
    strays: int = 0
    first_stray: int | None = None

    def stray(self, offset: int) -> None:
        self.strays += 1
        self.first_stray = offset if self.first_stray is None else self.first_stray

    def ended(self, differs_from: int | None) -> PairingResult:
        return PairingResult(self.equal, differs_from, self.strays, self.first_stray, self.next)


def compared(
    segments: SegmentMap, rules: MayLack, most: int = ALL
) -> Generator[Side, Sequence[Piece], PairingResult]:
    """Compare two streams; they begin where a record and its copy are, or after a log's start.

    :param segments: the map; its last segment must be closed
    :param most: end after this number of equal records
    """
    olds, news, found = _Stream(Side.OLD), _Stream(Side.NEW), _Found()
    while found.equal < most:
        old, new = (yield from olds.peek()), (yield from news.peek())
        origin = segments.origin_of(new[0]) if new is not None else None
        if new is not None and origin is None:
            found.stray(new[0])
            news.skip()
        elif old is not None and (origin is None or old[0] < origin):
            if segments.copy_of(old[0]) is None or not rules.new_compacted:
                return found.ended(old[0])
            olds.skip()
        elif old is None or (origin is not None and origin < old[0]):
            if origin is None:
                break
            if not rules.old_compacted:
                return found.ended(origin)
            news.skip()
        else:
            assert new is not None  # noqa: S101  it has the origin
            if old[1:] != new[1:]:
                return found.ended(old[0])
            found.equal, found.next = found.equal + 1, old[0] + 1
            olds.skip()
            news.skip()
    return found.ended(None)


def window_before(segments: SegmentMap, end: int, records: int) -> Begin | None:
    """Where the last copied records before a target offset begin; None: the map knows of none.

    :param end: target offset
    :param records: how many; fewer where the map knows fewer
    """
    begin, left = None, records
    for index in range(len(segments) - 1, -1, -1):
        [(up, down, length)] = segments.part(index, index + 1).triples()
        if length == UNKNOWN:
            break
        known = end - down if length == OPEN else min(length, end - down)
        if known >= left:
            return Begin(up + known - left, down + known - left)
        if known > 0:
            begin, left = Begin(up, down), left - known
    return begin
