"""The records of one partition before its frontier against their copies: whether they differ, and from where.

A log is only appended to. So an old primary that came back without its last records and took others equals
its copy up to some record and differs from there on. The last records before the frontier show whether it
does; where it begins is found by bisection, and confirmed by a whole window of equal records before it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from drkit.failover.loss.log_cursor import LogSide, PieceCursor
from drkit.kafka.reading.record_cursor import NO_IDS
from drkit.model import SourceOffset, TargetOffset, TopicPartition
from drkit.offsets import SegmentMap, Unavailable
from drkit.offsets.segments import OPEN, UNKNOWN
from drkit.wire import Piece

ALL: Final = 1 << 62


class Side(Enum):
    """The side whose records are needed."""

    OLD = "old"
    NEW = "new"


class MayLack(NamedTuple):
    """Missing records that are no difference."""

    old_compacted: bool = False
    """The old primary's compaction may have removed records that the copy has."""
    new_compacted: bool = False
    new_expires: bool = False
    """The new primary's retention removes the first records by time or size."""


@dataclass
class PairingResult:
    """The result of a comparison up to the first difference."""

    equal: int = 0
    """Records that equal their copies."""
    differs_from: int | None = None
    """Offset on the old primary of the first record that is not the copied one, is missing, or was never
    copied; None without a difference."""
    strays: int = 0
    """Records on the new primary that the map does not know."""
    first_stray: int | None = None
    """Offset on the new primary of the first of them."""
    next: int = 0
    """Offset on the old primary after the last equal record."""

    def ended(self, differs_from: int) -> PairingResult:
        """Return the result with the first difference."""
        self.differs_from = differs_from
        return self


class Begin(NamedTuple):
    """The offsets at which a comparison begins."""

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


def compared(
    segments: SegmentMap, rules: MayLack, most: int = ALL
) -> Generator[Side, Sequence[Piece], PairingResult]:
    """Compare two streams; they begin where a record and its copy are, or after a log's start.

    :param segments: the map; its last segment must be closed
    :param most: end after this number of equal records
    """
    olds, news, result = _Stream(Side.OLD), _Stream(Side.NEW), PairingResult()
    while result.equal < most:
        old, new = (yield from olds.peek()), (yield from news.peek())
        origin = segments.origin_of(new[0]) if new is not None else None
        if new is not None and origin is None:
            result.strays += 1
            result.first_stray = new[0] if result.first_stray is None else result.first_stray
            news.skip()
        elif old is not None and (origin is None or old[0] < origin):
            if segments.copy_of(old[0]) is None or not rules.new_compacted:
                return result.ended(old[0])
            olds.skip()
        elif old is None or (origin is not None and origin < old[0]):
            if origin is None:
                break
            if not rules.old_compacted:
                return result.ended(origin)
            news.skip()
        else:
            assert new is not None  # noqa: S101  it has the origin
            if old[1:] != new[1:]:
                return result.ended(old[0])
            result.equal, result.next = result.equal + 1, old[0] + 1
            olds.skip()
            news.skip()
    return result


def window_before(segments: SegmentMap, end: int, records: int) -> Begin | None:
    """Return where the last `records` copied before a target offset begin, or None without any."""
    begin, missing = None, records
    for index in range(len(segments) - 1, -1, -1):
        [(up, down, length)] = segments.part(index, index + 1).triples()
        if length == UNKNOWN:
            break
        known = end - down if length == OPEN else min(length, end - down)
        if known >= missing:
            return Begin(up + known - missing, down + known - missing)
        if known > 0:
            begin, missing = Begin(up, down), missing - known
    return begin


DEPTH: Final = 1_000
"""Records before the frontier that are compared."""
_PROBE: Final = 100
"""Records that are compared at each step of the bisection."""
_WINDOW_BYTES: Final = 32 << 20
_FEWER: Final = 8
_LEAST: Final = 16
"""The fewest records that are compared. Where a window has more bytes, an eighth of them is compared."""
_STRICT: Final = MayLack()


class _TooLargeError(Exception):
    """The window has more bytes than a comparison may read."""


@dataclass(frozen=True)
class Copies:
    """A partition and its copy, as far as they can be compared."""

    old: TopicPartition
    new: TopicPartition
    segments: SegmentMap
    """Closed at the copied end."""
    old_span: tuple[int, int]
    """From the log start of the old primary to the frontier, or to its end if that is earlier."""
    new_span: tuple[int, int]
    """From the log start of the copy to the cut, or to where a copy that lost its last records ends."""
    rules: MayLack = _STRICT
    skip: frozenset[int] = NO_IDS
    """Producers whose records on the old primary do not count where the map does not know them."""

    @property
    def new_end(self) -> int:
        """Offset on the new primary after the last copy that the old primary can have."""
        return min(self.new_span[1], self.copy_from(self.old_span[1]))

    @property
    def reaches_frontier(self) -> bool:
        """Return whether the old primary's log reaches to its last copied record."""
        return self.new_end >= self.segments.copied_end(self.new_span[1])

    def copy_from(self, old: int) -> int:
        """Return where the copies of the records from an offset of the old primary begin."""
        found = self.segments.translate(SourceOffset(old), self.new_span[1])
        return self.new_span[1] if isinstance(found, Unavailable) else found

    @property
    def ends(self) -> tuple[int, int]:
        """The offsets at which a comparison ends on both sides.

        Where the old primary's log has the last copied record, what follows it on the new primary is not a
        copy; else it is what the old primary lost.
        """
        return self.old_span[1], self.new_span[1] if self.reaches_frontier else self.new_end

    def before(self, end: int, records: int) -> Begin | None:
        """Return where the last copied records before an offset of the new primary begin, or None if none.

        Records that retention has removed on either side are not among them.
        """
        begin = window_before(self.segments, end, records)
        if begin is None:
            return None
        old, new = begin
        if self.old_span[0] > old:
            old, new = self.old_span[0], self.copy_from(self.old_span[0])
        if self.new_span[0] > new:
            origin = self.segments.inverse(TargetOffset(self.new_span[0]))
            old, new = old if isinstance(origin, Unavailable) else origin, self.new_span[0]
        return Begin(old, new) if old < self.old_span[1] and new < end else None


class ContentResult(NamedTuple):
    """The result of the comparison of a partition."""

    compared: int
    """Records that equal their copies, of those before the frontier or before the first difference."""
    differs_from: int | None
    strays: int = 0
    """Records in the compared part of the new primary that the map does not know."""
    first_stray: int | None = None
    compared_from: int | None = None
    """Offset on the new primary where the compared part begins, or None if nothing could be compared."""


Answers = Mapping[Side, Any]
"""The first fetch answers of a comparison that begins at :meth:`Copies.before`."""


class ContentCheck:
    """Compares one partition with its copy. Every method raises as :meth:`RecordCursor.next`."""

    def __init__(self, old: LogSide, new: LogSide, copies: Copies) -> None:
        self._old, self._new, self._copies = old, new, copies

    async def run(self, depth: int, answers: Answers | None = None) -> ContentResult:
        """Compare the last `depth` records before the frontier, and find the first difference."""
        copies = self._copies
        begin = copies.before(copies.new_end, depth)
        if begin is None:
            return ContentResult(0, None)
        try:
            found = await self._compare(begin, *copies.ends, answers=answers, limited=depth > _LEAST)
        except _TooLargeError:
            return await self.run(max(_LEAST, depth // _FEWER))
        if found.differs_from is None:
            return ContentResult(found.equal, None, found.strays, found.first_stray, begin.new)
        first = await self._first_difference(found.differs_from)
        return ContentResult(found.equal, first, compared_from=min(begin.new, copies.copy_from(first)))

    async def _first_difference(self, known: int) -> int:
        copies = self._copies
        lowest = copies.before(copies.new_end, ALL)
        low, high = lowest.old if lowest is not None else known, known
        while high - low > _PROBE:
            middle = (low + high) // 2
            found = await self._compare(self._at(middle), known, self._copies.copy_from(known), most=_PROBE)
            if found.differs_from is None and found.equal:
                low = max(middle, found.next)
            elif found.differs_from is not None and found.differs_from < known:
                known, high = found.differs_from, middle
            else:  # nothing is left there
                high = middle
            if found.differs_from is not None and found.equal:
                break
        while (begin := copies.before(copies.copy_from(known), DEPTH)) is not None:
            found = await self._compare(begin, known, copies.copy_from(known))
            if found.differs_from is None:
                break
            known = found.differs_from
        return known

    def _at(self, old: int) -> Begin:
        return Begin(old, self._copies.copy_from(old))

    async def _compare(
        self,
        begin: Begin,
        old_end: int,
        new_end: int,
        *,
        most: int = ALL,
        answers: Answers | None = None,
        limited: bool = False,
    ) -> PairingResult:
        copies, first = self._copies, answers or {}
        cursors = {
            Side.OLD: PieceCursor(
                self._old,
                copies.old,
                (begin.old, old_end),
                copies.skip,
                lambda old: copies.segments.copy_of(old) is not None,
                first.get(Side.OLD),
            ),
            Side.NEW: PieceCursor(self._new, copies.new, (begin.new, new_end), first=first.get(Side.NEW)),
        }
        steps = compared(copies.segments, copies.rules, most)
        side = next(steps)
        while True:
            if limited and sum(c.bytes for c in cursors.values()) > _WINDOW_BYTES:
                raise _TooLargeError
            try:
                side = steps.send(await cursors[side].pieces())
            except StopIteration as end:
                found: PairingResult = end.value
                return found
