"""Which offset syncs to write so that MirrorMaker 2's readers never translate too far ahead (KIP-382). Pure.

A reader takes the latest sync at or before a group's committed source offset. It answers the sync's target
offset when both are equal, and one more when the group is further: which records after the sync were copied
is unknown to it. It keeps some dozens of all syncs, newer ones more densely. A sync whose source offset is
smaller than the newest one's means that history was rewritten: the reader forgets all earlier syncs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from drkit.model import SourceOffset
from drkit.offsets.segments import SegmentMap, Unavailable

_REMEMBERED: Final = 64
"""Maximum number of syncs of a partition that a reader of MirrorMaker 2 keeps."""


class Sync(NamedTuple):
    """One record's offsets on both sides."""

    upstream: int
    downstream: int


class HeldSyncs:
    """What readers may hold of one partition: its syncs since history was last rewritten."""

    __slots__ = ("_syncs",)

    def __init__(self, syncs: Iterable[Sync] = ()) -> None:
        self._syncs: deque[Sync] = deque(maxlen=_REMEMBERED)
        self.take(syncs)

    def take(self, syncs: Iterable[Sync]) -> None:
        """More of them, in the order of the topic."""
        for sync in syncs:
            if self._syncs and sync.upstream < self._syncs[-1].upstream:
                self._syncs.clear()
            self._syncs.append(sync)

    @property
    def newest(self) -> Sync | None:
        """The last one."""
        return self._syncs[-1] if self._syncs else None

    def all_hold(self, segments: SegmentMap, end: int) -> bool:
        """Whether no sync moves a group past a record that it has not read."""
        return all(holds(sync, segments, end) for sync in self._syncs)


def holds(sync: Sync, segments: SegmentMap, end: int) -> bool:
    """Whether what readers make of a sync is at or before the exact position of every group.

    True also where the map only knows that another replicator copied: that one wrote the sync.

    :param end: target offset after the last copied record
    """
    if not len(segments):
        return sync.downstream < end
    translated = segments.translate(SourceOffset(sync.upstream), end)
    behind = segments.translate(SourceOffset(sync.upstream + 1), end)
    return (isinstance(translated, Unavailable) or sync.downstream <= translated) and (
        isinstance(behind, Unavailable) or sync.downstream + 1 <= behind
    )


def plan(segments: SegmentMap, end: int, held: HeldSyncs, spacing: int) -> list[Sync]:
    """The syncs to write now, in this order.

    The last copied record always gets one. Between it and the newest sync there are more of them, twice as
    far apart each time: readers keep no more of a long run.

    :param end: target offset after the last copied record; past the target's end without one
    :param spacing: records from the last one to the one before (``offset.lag.max``)
    """
    out: list[Sync] = []
    first, last, newest = segments.first_record(), segments.record_before(end), held.newest
    if first is not None and first[1] >= end:  # claimed, not there yet
        first = None
    other = newest is not None and last is not None and last[0] <= newest.upstream and last != newest
    if newest is not None and (other or not held.all_hold(segments, end)):
        out.append(_rewound(newest, Sync(*first) if first else None, end))
    elif newest is None and first is not None:
        out.append(Sync(*first))
    since = out[-1] if out else newest
    if since is not None:
        out += _between(segments, end, since, max(1, spacing))
    return out


def _rewound(newest: Sync, first: Sync | None, end: int) -> Sync:
    """A sync that makes readers forget all others, and is true.

    Where no copied record is before the newest sync, the sync is before all records: every group reads
    from the first copied one on.
    """
    if first is not None and first.upstream < newest.upstream:
        return first
    return Sync(min(newest.upstream, 0) - 1, (end if first is None else first.downstream) - 1)


def _between(segments: SegmentMap, end: int, since: Sync, spacing: int) -> Sequence[Sync]:
    found: list[Sync] = []
    last = segments.record_before(end)
    back = 0
    while last is not None and last[0] > since.upstream and last[1] > since.downstream:
        if not found or last[0] < found[-1].upstream:
            found.append(Sync(*last))
        back = 2 * back or spacing
        last = segments.record_before(found[0].downstream + 1 - back)
    return found[::-1]
