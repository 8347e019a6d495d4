"""Plans the offset syncs from which MirrorMaker 2's readers never translate too far ahead (KIP-382). Pure.

A reader uses the latest sync at or before a group's committed source offset. It returns the sync's target
offset if both are equal, and that plus one if the group is further: it does not know which records after the
sync were copied. It keeps some dozens of all syncs, newer ones more densely. A sync with a smaller source
offset than the newest one means that history was rewritten: the reader discards all earlier syncs.
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
    """The syncs of one partition that readers may hold: those since history was last rewritten."""

    __slots__ = ("_syncs",)

    def __init__(self, syncs: Iterable[Sync] = ()) -> None:
        self._syncs: deque[Sync] = deque(maxlen=_REMEMBERED)
        self.take(syncs)

    def take(self, syncs: Iterable[Sync]) -> None:
        """Add syncs, in the order of the topic."""
        for sync in syncs:
            if self._syncs and sync.upstream < self._syncs[-1].upstream:
                self._syncs.clear()
            self._syncs.append(sync)

    @property
    def newest(self) -> Sync | None:
        """The last one."""
        return self._syncs[-1] if self._syncs else None

    def all_hold(self, segments: SegmentMap, end: int) -> bool:
        """Return whether no sync moves a group past an unread record."""
        return all(holds(sync, segments, end) for sync in self._syncs)


def holds(sync: Sync, segments: SegmentMap, end: int) -> bool:
    """Return whether readers translate by a sync to at most the exact position of every group.

    Also true if another replicator copied that part, and wrote the sync.

    :param end: target offset after the last copied record
    """
    if not len(segments):
        return sync.downstream < end
    translated = segments.translate(SourceOffset(sync.upstream), end)
    next_translated = segments.translate(SourceOffset(sync.upstream + 1), end)
    return (isinstance(translated, Unavailable) or sync.downstream <= translated) and (
        isinstance(next_translated, Unavailable) or sync.downstream + 1 <= next_translated
    )


def plan(segments: SegmentMap, end: int, held: HeldSyncs, spacing: int) -> list[Sync]:
    """Return the syncs to write now, in this order.

    The last copied record always gets one. More syncs between it and the newest one are spaced at doubling
    distances: readers keep no more of a long run.

    :param end: target offset after the last copied record; past the target's end without one
    :param spacing: records from the last one to the one before (``offset.lag.max``)
    """
    syncs: list[Sync] = []
    first, last, newest = segments.first_record(), segments.record_before(end), held.newest
    if first is not None and first[1] >= end:  # claimed, not there yet
        first = None
    is_rewritten = newest is not None and last is not None and last[0] <= newest.upstream and last != newest
    if newest is not None and (is_rewritten or not held.all_hold(segments, end)):
        syncs.append(_rewound(newest, Sync(*first) if first else None, end))
    elif newest is None and first is not None:
        syncs.append(Sync(*first))
    newest_sync = syncs[-1] if syncs else newest
    if newest_sync is not None:
        syncs += _between(segments, end, newest_sync, max(1, spacing))
    return syncs


def _rewound(newest: Sync, first: Sync | None, end: int) -> Sync:
    """Return a correct sync that makes readers discard all others.

    If no copied record is before the newest sync, it is before all records: every group then starts at the
    first copied one.
    """
    if first is not None and first.upstream < newest.upstream:
        return first
    return Sync(min(newest.upstream, 0) - 1, (end if first is None else first.downstream) - 1)


def _between(segments: SegmentMap, end: int, since: Sync, spacing: int) -> Sequence[Sync]:
    syncs: list[Sync] = []
    last = segments.record_before(end)
    distance = 0
    while last is not None and last[0] > since.upstream and last[1] > since.downstream:
        if not syncs or last[0] < syncs[-1].upstream:
            syncs.append(Sync(*last))
        distance = 2 * distance or spacing
        last = segments.record_before(syncs[0].downstream + 1 - distance)
    return syncs[::-1]
