"""Ranges with the same records in another order on both sides, after a return that kept a tail. Pure.

The old primary has its tail first, and then the records of the new primary's clients; the new primary has the
tail in the middle of these. Positions inside the range have no counterpart; those before and after it have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from drkit.model import SourceOffset
from drkit.offsets.segments import SegmentMap, Unavailable

_FAR: Final = 1 << 63


class Crossing(NamedTuple):
    """A range of offsets on each side. Each of the two ends is a position with a counterpart."""

    source_first: int
    source_end: int
    target_first: int
    target_end: int
    """A later offset counts where the map knows of a copy of a record before `source_end`."""

    def inverted(self, segments: SegmentMap, copied_end: int) -> Crossing:
        """Return the crossing as seen from the other direction.

        :param segments: the map of the direction that ends; it knows all that was copied
        :param copied_end: its target offset after the last copied record
        """
        end = self.exact_end(segments, copied_end)
        return Crossing(self.target_first, end, self.source_first, self.source_end)

    def exact_end(self, segments: SegmentMap, copied_end: int) -> int:
        """The target offset at which it ends, once everything before its end on the source is copied."""
        after = segments.translate(SourceOffset(self.source_end), copied_end)
        last = None if isinstance(after, Unavailable) else segments.record_before(after)
        return self.target_end if last is None else max(self.target_end, last[1] + 1)


class Bounds(NamedTuple):
    """Between which offsets of the other side a position is that is in no crossing."""

    low: int = 0
    high: int = _FAR


Spans = Iterable[tuple[tuple[int, int], tuple[int, int]]]
"""A range on this side, and its counterpart on the other one; ascending."""


def bounds(spans: Spans, offset: int) -> Bounds | None:
    """The bounds of the position at an offset; None: it is inside of a crossing."""
    low = 0
    for (first, end), (other_first, other_end) in spans:
        if offset <= first:
            return Bounds(low, other_first)
        if offset < end:
            return None
        low = other_end
    return Bounds(low)


def source_spans(crossings: Iterable[Crossing]) -> Spans:
    """The crossings as a position on the source needs them."""
    return (((c.source_first, c.source_end), (c.target_first, c.target_end)) for c in crossings)


def target_spans(
    crossings: Iterable[Crossing], segments: SegmentMap, copied_end: int, frontier: int | None
) -> Spans:
    """The crossings as a position on the target needs them.

    :param frontier: next source offset to copy; one that is not copied to its end has no end on the target
    """
    for c in crossings:
        is_whole = frontier is not None and frontier >= c.source_end
        end = c.exact_end(segments, copied_end) if is_whole else _FAR
        yield (c.target_first, end), (c.source_first, c.source_end)
