"""Find copied records that the target has deleted, although the source should keep them.

The offset map has the source offset of the first record that the copy still has. Earlier source records are
missing, unless the source's retention deletes them, too: both clusters delete whole segments independently.
So records older than ``retention.ms`` do not count, nor any while the copy has ``retention.bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from drkit.clock import Millis, wall_ms
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one, listed, metadata, volumes
from drkit.model import TopicPartition
from drkit.offset_map.locate import Located
from drkit.offsets.resolution import Resolution
from drkit.topology.topic_configs import Retention
from drkit.wire import visible

_CLOCKS_MS: Final = 60_000
"""Tolerance for clock skew: a record with less time left may be deleted already."""
_HOLE_BYTES: Final = 64 * 1024
_HOLES: Final = 32
"""Maximum number of fetches for the first record of a range."""

Topics = Mapping[str, TopicMetadata]


class Removed(NamedTuple):
    """Source offsets, half open, of copied records that the target has removed."""

    first: int
    end: int
    log_start: int
    """First offset left on the target."""

    @classmethod
    def of(cls, located: Located, log_start: int, emptied: int, frontier: int | None) -> Removed:
        """Return what was removed of a partition.

        :param emptied: target offset before which nothing belongs to the copy
        :param frontier: first source offset that was not copied, or None if it is unknown or nothing was
        """
        answer, claims = located.answer, located.state.claims()
        segments = answer.segments if isinstance(answer, Resolution) else located.state.segments
        first, end = segments.removed(max(log_start, emptied))
        # The answer does not include claims that were removed before a mark confirmed them.
        first = min(first, *(up for claim in claims for up, _, _ in claim.pieces())) if claims else first
        return cls(first, min(end, frontier or 0), log_start)


RemovedByCopy = dict[CopiedPartition, Removed]


class RemovedLook:
    """Finds missing records at each look; no further requests for ranges that the source deletes, too.

    :param clock: wall clock, to which the age of records is compared
    """

    def __init__(self, clock: Millis = wall_ms) -> None:
        self._clock = clock
        self.due: dict[TopicPartition, tuple[Retention | None, int]] = {}
        """Source partition → its retention, and the offset before which it removes everything."""

    async def missing(
        self,
        clusters: tuple[RawCluster | None, RawCluster],
        copies: Mapping[CopiedPartition, Removed],
        starts: Mapping[TopicPartition, int],
        left_out: frozenset[int],
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the source offsets that are missing at the beginning of copies, by source partition.

        A topic that a failover has promoted is no copy. Where no retention is on record, the source may keep
        all that the copy has removed: an upper bound.

        :param clusters: source and target; the source is None if it does not answer
        :param starts: first offsets of the source; if it does not answer, as last recorded
        :param left_out: producers whose records the flow does not copy
        :raises RawError: a cluster stopped answering
        """
        source, target = clusters
        sources = {w.source for w in copies}
        self.due = {tp: due for tp, due in self.due.items() if tp in sources}
        removals: RemovedByCopy = {}
        for w, removed in copies.items():
            retention, due = self.due.get(w.source, (None, 0))
            if w.until is None and w.source in starts:
                first = max(removed.first, starts[w.source], due if retention == w.retention else 0)
                removals[w] = removed._replace(first=first)
        removals = {w: removed for w, removed in removals.items() if removed.first < removed.end}
        if not removals:
            return {}
        cluster, is_source = source or target, source is not None
        names = {(w.source if is_source else w.target).topic for w in removals}
        topics = await metadata(cluster, sorted(names))
        removals = await self._within_retention(cluster, topics, removals, is_source=is_source)
        removals = self._without_due(removals, await _within_size(target, removals))
        if source is not None:
            firsts = {w: await _first_copied(source, topics, w, removals[w], left_out) for w in removals}
            removals = {w: removed._replace(first=firsts[w]) for w, removed in removals.items()}
        return {w.source: (r.first, r.end) for w, r in removals.items() if r.first < r.end}

    def _without_due(self, removals: RemovedByCopy, due: Mapping[CopiedPartition, int]) -> RemovedByCopy:
        out = {w: r._replace(first=max(r.first, min(due.get(w, 0), r.end))) for w, r in removals.items()}
        self.due |= {w.source: (w.retention, out[w].first) for w in due if out[w].first > removals[w].first}
        return {w: removed for w, removed in out.items() if removed.first < removed.end}

    async def _within_retention(
        self, cluster: RawCluster, topics: Topics, removals: RemovedByCopy, *, is_source: bool
    ) -> RemovedByCopy:
        """Leave out records older than the source's retention, and partitions without an answer.

        If the target's first record is older, so are all earlier ones.
        """
        now = self._clock() + _CLOCKS_MS
        limits = {w: w.retention.ms for w in removals if w.retention is not None}
        times = {w.source if is_source else w.target: now - ms for w, ms in limits.items() if ms is not None}
        younger = await listed(cluster, topics, times, times)
        due, answered = {}, {}
        for w, removed in removals.items():
            tp = w.source if is_source else w.target
            if tp not in times or tp in younger:
                answered[w] = removed
                offset = younger.get(tp, 0)
                is_all = offset < 0 or (not is_source and offset > removed.log_start)
                due[w] = removed.end if is_all else offset if is_source else 0
        return self._without_due(answered, due)


async def _within_size(target: RawCluster, removals: RemovedByCopy) -> dict[CopiedPartition, int]:
    limits = {w: w.retention.bytes for w in removals if w.retention is not None}
    sized = {w: most for w, most in limits.items() if most is not None}
    if not sized:
        return {}
    sizes = await volumes(target, await metadata(target, sorted({w.target.topic for w in sized})))
    # An unknown size may be large enough.
    return {w: removals[w].end for w, most in sized.items() if sizes.get(w.target, most) >= most}


async def _first_copied(
    source: RawCluster, topics: Topics, copy: CopiedPartition, removed: Removed, left_out: frozenset[int]
) -> int:
    first, topic = removed.first, topics[copy.source.topic]
    if copy.source.partition not in topic.leaders:
        return removed.end
    for _ in range(_HOLES):
        skip = copy.left_out_at(first, left_out)
        offset = await first_to_copy(source, topic, copy.source, first, skip)
        if offset <= first or offset >= removed.end:
            return offset
        first = offset  # it may be a record, or only the end of the batches that were read
    return first


async def first_to_copy(
    source: RawCluster, topic: TopicMetadata, tp: TopicPartition, start: int, left_out: frozenset[int]
) -> int:
    """Return the first source offset from `start` on with a record that is to be copied.

    Markers, aborted records and what compaction left are never copied. Where the first batches hold nothing
    else, the offset after them is returned.

    :raises RawError: the source stopped answering
    """
    answer = await fetch_one(
        source, topic.leaders[tp.partition].node, (tp.topic, topic.topic_id), tp.partition, start,
        max_bytes=_HOLE_BYTES, max_wait_ms=0,
    )  # fmt: skip
    if answer.error_code:
        return start
    content = visible(answer.records or b"", start, aborted=aborted_in(answer), without=left_out)
    return content.chunks[0].runs[0].source if content.chunks else max(start, content.next_source)
