"""What is to be compared: partitions as read at one moment, cut into ranges for the tasks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from drkit.flow_state.codec.record import TaskData
from drkit.model import TopicPartition
from drkit.offsets import SegmentMap
from drkit.offsets.segments import UNKNOWN
from drkit.verify.compare import Segment

_SMALLEST = 50_000
_LARGEST = 2_000_000
_PER_SLOT = 6
"""Ranges per task slot: some are quicker than others, and progress is reported per range."""


class TakenOver(NamedTuple):
    """The offsets at which drkit continued after MirrorMaker 2."""

    source_offset: int
    target_offset: int
    committed: bool
    """False: it had also copied what transactions aborted, as it does by default."""

    @property
    def place(self) -> tuple[int, int]:
        """Both offsets."""
        return self.source_offset, self.target_offset


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition on both sides at one moment. Offsets; all ends are exclusive."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    """The last stable offset."""
    frontier: int
    """First source offset that is not on the target."""
    target_start: int
    target_end: int
    """The last stable offset when the map was read."""
    segments: tuple[Segment, ...]
    source_compacted: bool = False
    target_compacted: bool = False
    begin: tuple[int, int] | None = None
    """First source and target offset to compare, or None for the whole partition."""
    before: bool = False
    """MirrorMaker 2 copied the records before `begin`: they are compared by content."""
    taken_over: TakenOver | None = None
    """The end of what MirrorMaker 2 had copied, or None if it never did."""
    apart: tuple[tuple[int, int, int, int], ...] = ()
    """Ranges of source and target offsets with a tail that a return has kept, which no map covers."""


@dataclass(frozen=True, slots=True)
class Range(TaskData):
    """A piece of a partition for one task: source offsets and the target offsets that belong to them."""

    source: TopicPartition
    target: TopicPartition
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    segments: tuple[Segment, ...]
    source_compacted: bool
    target_compacted: bool
    lag_until: int | None = None
    """Of a partition's last range: check whether records wait between its end and this source offset."""
    committed: bool = True
    """Aborted records of the source do not count."""
    again_from: int | None = None
    """MirrorMaker 2 copied the range, so no map covers it; all records from this source offset are in the
    next range, too. None if the map covers the range."""
    apart: tuple[tuple[int, int, int, int], ...] = ()
    """See :class:`PartitionView`."""
    keys_from: int = 0
    """The source offset from which keys of a compacted source are compared: MirrorMaker 2 may have copied
    keys that the source has only in aborted transactions."""

    @property
    def size(self) -> int:
        """The number of offsets to be read on both sides."""
        return self.source_to - self.source_from + self.target_to - self.target_from


def closed(segments: SegmentMap, target_end: int) -> tuple[Segment, ...]:
    """Return the segments, with the open last one cut at the target's end."""
    found = []
    for up, down, length in segments.triples():
        room = max(0, target_end - down)
        if length != UNKNOWN:
            found.append(Segment(up, down, room if length < 0 else min(length, room)))
    return tuple(s for s in found if s.records > 0)


def cut(views: Iterable[PartitionView], slots: int) -> list[Range]:
    """Return ranges of about equal size, several for each slot; those of a partition in ascending order."""
    views = list(views)
    total = sum(max(v.frontier - _begin(v), 0) for v in views)
    step = min(_LARGEST, max(_SMALLEST, -(-total // max(1, slots * _PER_SLOT))))
    return [r for v in views for r in (*_before(v), *_ranges(v, step))]


def _begin(view: PartitionView) -> int:
    return view.source_start if view.begin is None else max(view.begin[0], view.source_start)


def _before(view: PartitionView) -> Iterator[Range]:
    if not view.before or view.begin is None:
        return
    up, down = view.begin
    end = max(up, view.taken_over.source_offset) if view.taken_over else up
    source = view.source_start, max(view.source_start, end)
    target = view.target_start, max(view.target_start, down)
    compacted = view.source_compacted, view.target_compacted
    yield Range(view.source, view.target, *source, *target, (), *compacted, again_from=up)


def _ranges(view: PartitionView, step: int) -> Iterator[Range]:
    begin = _begin(view)
    # Compaction is judged by later records of the same key, so the whole partition stays in one range.
    is_whole = view.source_compacted or view.target_compacted
    stops = set() if is_whole else set(range(begin + step, view.frontier, step))
    uncommitted, keys_from = begin, 0
    if view.taken_over is not None and not view.taken_over.committed:
        keys_from = view.taken_over.source_offset
        if not is_whole:
            uncommitted = keys_from
            if begin < uncommitted < view.frontier:
                stops.add(uncommitted)
    starts = [begin, *sorted(stops)]
    for i, start in enumerate(starts):
        last = i + 1 == len(starts)
        stop = max(view.frontier, start) if last else starts[i + 1]
        known = view.begin[1] if view.begin else 0
        target_from = max(view.target_start, known if i == 0 else _place(view, start))
        target_to = view.target_end if last else max(view.target_start, _place(view, stop))
        yield Range(
            source=view.source,
            target=view.target,
            source_from=start,
            source_to=stop,
            target_from=target_from,
            target_to=target_to,
            segments=tuple(_clipped(view.segments, target_from, target_to)),
            source_compacted=view.source_compacted,
            target_compacted=view.target_compacted,
            lag_until=view.source_end if last else None,
            committed=start >= uncommitted,
            apart=view.apart,
            keys_from=keys_from,
        )


def _place(view: PartitionView, upstream: int) -> int:
    segments = view.segments
    index = max(0, bisect_right(segments, upstream, key=lambda s: s.upstream) - 1)
    for segment in segments[index:]:
        if upstream < segment.upstream + segment.records:
            return segment.downstream + max(0, upstream - segment.upstream)
    return view.target_end


def _clipped(segments: tuple[Segment, ...], start: int, stop: int) -> Iterator[Segment]:
    index = max(0, bisect_right(segments, start, key=lambda s: s.downstream) - 1)
    for s in segments[index:]:
        if s.downstream >= stop:
            return
        lo, hi = max(start, s.downstream), min(stop, s.downstream + s.records)
        if hi > lo:
            yield Segment(s.upstream + lo - s.downstream, lo, hi - lo)


def from_checked(view: PartitionView, checked: tuple[int, int] | None) -> PartitionView:
    """Leave out what an earlier verification found equal, or nothing if an end offset has decreased since."""
    if checked is None or checked[0] > view.frontier or checked[1] > view.target_end:
        return view
    return replace(view, begin=checked, before=False, taken_over=None)
