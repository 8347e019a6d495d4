"""A group's position on the other side: exact, or the reason why it is unknown. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from drkit.model import SourceOffset, TargetOffset
from drkit.offsets.crossing import Bounds, Crossing, bounds, source_spans, target_spans
from drkit.offsets.resolution import Foreign
from drkit.offsets.segments import SegmentMap, Unavailable

AT_END: Final = "at the end"
BEHIND_COPY: Final = "after the last copied record"
CROSSED: Final = "a return has kept a tail there, so both sides have these records in another order"


@dataclass(frozen=True, slots=True)
class Exact:
    """The next offset to read; `note` says what is special about it."""

    offset: int
    note: str = ""
    skipped: int = 0
    """Offsets between the true position and this one: retention has removed their records."""
    reached: bool = True
    """False: the copy ended before this offset; the records between are not on the other side."""


Translation = Exact | Unavailable
"""An answer for one partition."""


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """What is known of a partition at one moment, the map settled against the target's log."""

    segments: SegmentMap = field(default_factory=SegmentMap)
    frontier: int | None = None
    """Next source offset to copy: nothing before it is missing on the target. None: never copied anything."""
    start: int = 0
    """First offset left on the target."""
    end: int = 0
    """The target's end."""
    copied_end: int = 0
    """Target offset after the last copied record."""
    source_start: int | None = None
    """First offset left on the source; None while it cannot be asked."""
    source_end: int | None = None
    frozen: bool = False
    """Nothing more will be copied: the source is gone, or the flow was stopped for good."""
    foreign: tuple[Foreign, ...] = ()
    """Batches of others on the target that the map does not know yet."""
    crossings: tuple[Crossing, ...] = ()
    """Where both sides have the same records in another order; ascending."""
    missing: tuple[int, int] | None = None
    """Source offsets, half open, that were copied, and that the target has removed although the source may
    keep them, or None if there are none."""
    dropped: int = 0
    """Number of source offsets that were copied, and that the target has lost at the end of its log."""
    leader_epoch: int = -1
    """Of the source at the last copied record, or a later one; −1: unknown."""

    def forward(self, upstream: int) -> Translation:
        """The target offset at which a group continues that has committed `upstream` on the source.

        It is that of the first copied record at or after `upstream` that the target still holds.
        """
        within = bounds(source_spans(self.crossings), upstream)
        if within is None:
            return Unavailable(f"source offset {upstream} has no counterpart: {CROSSED}")
        position = _bounded(self._forward(upstream), within, self.start)
        if self.missing is None or upstream >= self.missing[1] or isinstance(position, Unavailable):
            return position
        first = max(upstream, self.missing[0])
        note = position.note or "behind retention"
        removed = f"source offsets {first} to {self.missing[1] - 1}, which the source may keep"
        return Unavailable(f"{note}; the target has removed {removed}", position.offset)

    def _forward(self, upstream: int) -> Translation:
        if why := self._too_far(upstream):
            return Unavailable(why)
        if self.frontier is None:
            return self._never_copied(upstream)
        if not len(self.segments):
            note = "empty: the end" if self.end > self.start else "empty: the log start"
            reached = upstream <= self.frontier
            return Exact(self.end, note if reached else self._behind(), reached=reached)
        found = self.segments.translate(SourceOffset(upstream), self.copied_end)
        if isinstance(found, Unavailable):
            return found
        skipped = max(0, self.start - found)
        return Exact(
            max(found, self.start), self._note(upstream, found), skipped, reached=upstream <= self.frontier
        )

    def inverted_crossings(self) -> tuple[Crossing, ...]:
        """The crossings as the map of the other direction begins with them."""
        return tuple(c.inverted(self.segments, self.copied_end) for c in self.crossings)

    def waits_for(self, upstream: int) -> bool:
        """Return whether the copy has not reached this source offset yet, and will reach it."""
        if self.frozen or (self.source_end is not None and upstream > self.source_end):
            return False
        return self.frontier is not None and upstream > self.frontier

    def why_never(self, upstream: int) -> str:
        """Return why a group at this source offset gets no position, also later, or an empty text.

        A group whose next records are removed may get the nearest one: it loses these.
        """
        answer = self.forward(upstream)
        is_pending = self.frontier is None or self.waits_for(upstream)
        if isinstance(answer, Unavailable) and answer.nearest is None and not is_pending:
            return answer.reason
        return ""

    def _too_far(self, upstream: int) -> str:
        if self.source_end is not None and upstream > self.source_end:
            return f"source offset {upstream} is past the end of the source, {self.source_end}"
        if self.waits_for(upstream):
            return f"source offset {upstream} is not copied yet: the copy has reached {self.frontier}"
        return ""

    def _note(self, upstream: int, found: int) -> str:
        if found < self.start:
            lost = self.start - found
            return f"behind retention: the target begins at {self.start}, {lost} offsets later"
        if self.frontier is not None and upstream > self.frontier:
            return self._behind()
        if self.source_start is not None and upstream < self.source_start:
            return f"behind retention: the source begins at {self.source_start}, the target has more"
        return AT_END if found >= self.copied_end else ""

    def _behind(self) -> str:
        return f"{BEHIND_COPY}: the copy has reached {self.frontier}"

    def backward(self, downstream: int) -> Translation:
        """The source offset at which a group continues that has committed `downstream` on the target."""
        if downstream > self.end:
            return Unavailable(f"target offset {downstream} is past the target's end offset {self.end}")
        spans = target_spans(self.crossings, self.segments, self.copied_end, self.frontier)
        within = bounds(spans, downstream)
        if within is None:
            return Unavailable(f"target offset {downstream} has no counterpart: {CROSSED}")
        return _bounded(self._backward(downstream), within, self.source_start or 0)

    def _backward(self, downstream: int) -> Translation:
        if self.frontier is None:
            return self._never_copied_back()
        if not len(self.segments) or downstream >= self.copied_end:
            reached = downstream <= self.copied_end
            note = AT_END if reached else BEHIND_COPY
            if self.frontier == self.source_start and self.start == self.end:
                note = "empty: the source's log start"
            return Exact(self.frontier, note, reached=reached)
        found = self.segments.inverse(TargetOffset(downstream))
        if isinstance(found, Unavailable):
            return found
        if self.source_start is not None and found < self.source_start:
            lost = self.source_start - found
            return Exact(
                self.source_start, f"behind retention: the source begins at {self.source_start}", lost
            )
        return Exact(found, "")

    def _never_copied(self, upstream: int) -> Translation:
        """The target's end when the first copied record will be there, or when nothing will be copied."""
        began = self.source_start is not None and upstream <= self.source_start
        if self.frozen or began:
            reached, bare = began or not upstream, self.end == self.start
            what = "empty" if reached and bare else "nothing copied"
            return Exact(self.end, f"{what}: the {'log start' if bare else 'end'}", reached=reached)
        return Unavailable("nothing of this partition has been copied yet")

    def _never_copied_back(self) -> Translation:
        if self.source_start is not None and self.start == self.end:
            return Exact(self.source_start, "empty: the source's log start")
        return Unavailable("nothing of this partition has been copied yet")


def _bounded(found: Translation, within: Bounds, start: int) -> Translation:
    """A position that stays on its side of every crossing.

    :param start: first offset that is left there
    """
    if isinstance(found, Unavailable) or within.low <= found.offset <= within.high:
        return found
    wanted = min(max(found.offset, within.low), within.high)
    return replace(found, offset=max(wanted, start), skipped=max(found.skipped, start - wanted), note="")
