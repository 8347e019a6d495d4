"""Find records that were copied and that the target has removed, although the source is to keep them.

The offset map names the source offset of the first record that the copy still has. What the source has before
it is missing, unless its own retention removes it, too: both clusters remove whole segments, each at its own
time. So records older than ``retention.ms`` do not count, nor any while the copy has ``retention.bytes``.
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
"""A record that has less time left may be gone: the brokers' clocks are not this one."""
_HOLE_BYTES: Final = 64 * 1024
_HOLES: Final = 32
"""How many answers are read for the first record of a range."""

Topics = Mapping[str, TopicMetadata]


class Removed(NamedTuple):
    """Source offsets, half open, of copied records that the target has removed."""

    first: int
    end: int
    left: int
    """First offset left on the target."""

    @classmethod
    def of(cls, found: Located, left: int, emptied: int, frontier: int | None) -> Removed:
        """Return what was removed of a partition.

        :param emptied: target offset before which nothing belongs to the copy
        :param frontier: first source offset that was not copied; None: unknown, or nothing was
        """
        answer, claims = found.answer, found.state.claims()
        segments = answer.segments if isinstance(answer, Resolution) else found.state.segments
        first, end = segments.removed(max(left, emptied))
        # Of what was claimed, and removed before a mark confirmed it, the answer says nothing.
        first = min(first, *(up for claim in claims for up, _, _ in claim.pieces())) if claims else first
        return cls(first, min(end, frontier or 0), left)


Found = dict[CopiedPartition, Removed]


class RemovedLook:
    """Looks again and again; what the source's retention removes as well is asked for once.

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

        A topic that a failover has promoted is no copy. Without its retention on record nothing is missing.

        :param clusters: source and target; a source that does not answer is None
        :param starts: first offsets of the source; of a silent one as they were noted last
        :param left_out: producers whose records the flow does not copy
        :raises RawError: a cluster stopped answering
        """
        source, target = clusters
        found: Found = {}
        for w, removed in copies.items():
            retention, due = self.due.get(w.source, (None, 0))
            if w.retention is not None and w.until is None and w.source in starts:
                first = max(removed.first, starts[w.source], due if retention == w.retention else 0)
                found[w] = removed._replace(first=first)
        found = {w: removed for w, removed in found.items() if removed.first < removed.end}
        if not found:
            return {}
        topics = there = await metadata(target, sorted({w.target.topic for w in found}))
        if source is not None:
            there = await metadata(source, sorted({w.source.topic for w in found}))
        found = await self._young(source or target, there, found, is_source=source is not None)
        found = self._without(found, await _within_size(target, topics, found))
        if source is not None:
            firsts = {w: await _first_copied(source, there, w, found[w], left_out) for w in found}
            found = {w: removed._replace(first=firsts[w]) for w, removed in found.items()}
        return {w.source: (r.first, r.end) for w, r in found.items() if r.first < r.end}

    def _without(self, found: Found, due: Mapping[CopiedPartition, int]) -> Found:
        out = {w: r._replace(first=max(r.first, min(due.get(w, 0), r.end))) for w, r in found.items()}
        self.due |= {w.source: (w.retention, out[w].first) for w in due if out[w].first > found[w].first}
        return {w: removed for w, removed in out.items() if removed.first < removed.end}

    async def _young(self, cluster: RawCluster, topics: Topics, found: Found, *, is_source: bool) -> Found:
        """Leave out records that are older than the source keeps any, and partitions without an answer.

        Where the first record that the target still has is older, those before it are.
        """
        now = self._clock() + _CLOCKS_MS
        limits = {w: w.retention.ms for w in found if w.retention is not None}
        times = {w.source if is_source else w.target: now - ms for w, ms in limits.items() if ms is not None}
        younger = await listed(cluster, topics, times, times)
        due, answered = {}, {}
        for w, removed in found.items():
            at = w.source if is_source else w.target
            if at not in times or at in younger:
                answered[w] = removed
                offset = younger.get(at, 0)
                is_all = offset < 0 or (not is_source and offset > removed.left)
                due[w] = removed.end if is_all else offset if is_source else 0
        return self._without(answered, due)


async def _within_size(target: RawCluster, topics: Topics, found: Found) -> dict[CopiedPartition, int]:
    limits = {w: w.retention.bytes for w in found if w.retention is not None}
    sized = {w: most for w, most in limits.items() if most is not None}
    names = {w.target.topic for w in sized}
    sizes = await volumes(target, {name: topics[name] for name in names}) if names else {}
    # A size that brokers hide may be large enough.
    return {w: found[w].end for w, most in sized.items() if sizes.get(w.target, most) >= most}


async def _first_copied(
    source: RawCluster, topics: Topics, w: CopiedPartition, removed: Removed, left_out: frozenset[int]
) -> int:
    first, topic = removed.first, topics[w.source.topic]
    if w.source.partition not in topic.leaders:
        return removed.end
    for _ in range(_HOLES):
        skip = w.left_out_at(first, left_out)
        offset = await first_to_copy(source, topic, w.source, first, skip)
        if offset <= first or offset >= removed.end:
            return offset
        first = offset  # a record is there, or only what was read before it holds none
    return first


async def first_to_copy(
    source: RawCluster, topic: TopicMetadata, at: TopicPartition, start: int, left_out: frozenset[int]
) -> int:
    """Return the first source offset from `start` on with a record that is to be copied.

    Markers, aborted records and what compaction left are never copied. Where the first batches hold nothing
    else, the offset after them is returned.

    :raises RawError: the source stopped answering
    """
    answer = await fetch_one(
        source, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, start,
        max_bytes=_HOLE_BYTES, max_wait_ms=0,
    )  # fmt: skip
    if answer.error_code:
        return start
    found = visible(answer.records or b"", start, aborted=aborted_in(answer), without=left_out)
    return found.chunks[0].runs[0].source if found.chunks else max(start, found.next_source)
