"""Find records that were copied and that the target has removed, although the source is to keep them.

The offset map names the source offset of the first record that the copy still has. What the source has before
it is missing, unless the source's own retention removes it, too: both clusters remove whole segments, each at
its own time, so one side may have more. Records older than ``retention.ms`` do not count, nor does any while
the copy has ``retention.bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from drkit.clock import Millis, wall_ms
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one, listed, metadata, volumes
from drkit.model import TopicPartition
from drkit.topology.topic_configs import Retention
from drkit.wire import visible

_CLOCKS_MS: Final = 60_000
"""A record that has less time left may be gone: the brokers' clocks are not this one."""
_HOLE_BYTES: Final = 64 * 1024
_HOLES: Final = 32
"""How many answers are read for the first record of a range."""

Span = tuple[int, int]
"""Source offsets, half open."""


class Removed(NamedTuple):
    """What a copy has no more."""

    span: Span
    """Source offsets of the copied records that the target has removed."""
    start: int
    """First offset left on the target."""


class RemovedLook:
    """Looks again and again; what the source's retention removes as well is asked for once.

    :param clock: wall clock, to which the age of records is compared
    """

    def __init__(self, clock: Millis = wall_ms) -> None:
        self._clock = clock
        self.due: dict[TopicPartition, tuple[Retention, int]] = {}
        """Source partition → its retention, and the offset before which it removes everything."""

    async def missing(
        self,
        target: RawCluster,
        source: RawCluster | None,
        copies: Mapping[CopiedPartition, Removed],
        starts: Mapping[TopicPartition, int],
        left_out: frozenset[int],
    ) -> dict[TopicPartition, Span]:
        """Return the source offsets that are missing at the beginning of copies, by source partition.

        A topic that a failover has promoted is no copy. Without its retention on record nothing is missing.

        :param source: None: it does not answer; then the target tells the age of its first record
        :param starts: first offsets of the source; of a silent one as they were noted last
        :param left_out: producers whose records the flow does not copy
        :raises RawError: the target, or the source, stopped answering
        """
        found = {}
        for w, removed in copies.items():
            if w.retention is None or w.until is not None or w.source not in starts:
                continue
            retention, due = self.due.get(w.source, (None, 0))
            first = max(removed.span[0], starts[w.source], due if retention == w.retention else 0)
            if first < removed.span[1]:
                found[w] = removed._replace(span=(first, removed.span[1]))
        if not found:
            return {}
        topics = await metadata(target, sorted({w.target.topic for w in found}))
        on_source = topics
        if source is not None:
            on_source = await metadata(source, sorted({w.source.topic for w in found}))
        found = await self._young(source or target, on_source, found, is_source=source is not None)
        found = self._left(found, await _within_size(target, topics, found))
        if source is None:
            return {w.source: removed.span for w, removed in found.items()}
        out = {}
        for w, removed in found.items():
            first = await _first_copied(source, on_source[w.source.topic], w, removed.span, left_out)
            if first < removed.span[1]:
                out[w.source] = (first, removed.span[1])
        return out

    def _left(
        self, found: Mapping[CopiedPartition, Removed], due: Mapping[CopiedPartition, int]
    ) -> dict[CopiedPartition, Removed]:
        """Return what is left of some ranges; what is due once is due for good."""
        out = dict(found)
        for w, offset in due.items():
            first, end = found[w].span
            if w.retention is not None and offset > first:
                self.due[w.source] = (w.retention, min(offset, end))
                out[w] = found[w]._replace(span=(min(offset, end), end))
        return {w: removed for w, removed in out.items() if removed.span[0] < removed.span[1]}

    async def _young(
        self,
        cluster: RawCluster,
        topics: Mapping[str, TopicMetadata],
        found: Mapping[CopiedPartition, Removed],
        *,
        is_source: bool,
    ) -> dict[CopiedPartition, Removed]:
        """Return what is left of some ranges without records that are older than the source keeps any.

        A partition without an answer is left out. Where the first record that the target still has is older,
        those before it are.
        """
        limits = {w: w.retention.ms for w in found if w.retention is not None}
        now = self._clock() + _CLOCKS_MS
        at = {w: w.source if is_source else w.target for w, ms in limits.items() if ms is not None}
        younger = await listed(cluster, topics, at.values(), {at[w]: now - (limits[w] or 0) for w in at})
        due = {}
        for w in at.keys() & found.keys():
            offset, removed = younger.get(at[w]), found[w]
            if offset is not None and (offset < 0 or (not is_source and offset > removed.start)):
                due[w] = removed.span[1]
            elif offset is not None and is_source:
                due[w] = offset
        answered = {w: removed for w, removed in found.items() if w not in at or at[w] in younger}
        return self._left(answered, due)


async def _within_size(
    target: RawCluster, topics: Mapping[str, TopicMetadata], found: Mapping[CopiedPartition, Removed]
) -> dict[CopiedPartition, int]:
    """Return the ends of the ranges whose copies have as many bytes as the source keeps, or unknown sizes."""
    limits = {w: w.retention.bytes for w in found if w.retention is not None}
    sized = {w: most for w, most in limits.items() if most is not None}
    if not sized:
        return {}
    sizes = await volumes(target, {w.target.topic: topics[w.target.topic] for w in sized})
    return {w: found[w].span[1] for w, most in sized.items() if sizes.get(w.target, most) >= most}


async def _first_copied(
    source: RawCluster, topic: TopicMetadata, w: CopiedPartition, span: Span, left_out: frozenset[int]
) -> int:
    """Return the first offset of a range with a record that was to be copied; the range's end without one."""
    first, end = span
    for _ in range(_HOLES):
        if first >= end or w.source.partition not in topic.leaders:
            return end
        found = await first_to_copy(source, topic, w.source, first, w.left_out_at(first, left_out))
        if found.is_record or found.offset <= first:
            return min(found.offset, end)
        first = found.offset
    return first


class Next(NamedTuple):
    """What follows an offset of the source."""

    offset: int
    is_record: bool
    """A record that is to be copied is there; False: nothing before it is."""


async def first_to_copy(
    source: RawCluster, topic: TopicMetadata, at: TopicPartition, start: int, left_out: frozenset[int]
) -> Next:
    """Return the first source offset from `start` on with a record that is to be copied.

    Markers, aborted records and what compaction left are never copied. At most some batches are read.

    :raises RawError: the source stopped answering
    """
    answer = await fetch_one(
        source, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, start,
        max_bytes=_HOLE_BYTES, max_wait_ms=0,
    )  # fmt: skip
    if answer.error_code:
        return Next(start, is_record=False)
    found = visible(answer.records or b"", start, aborted=aborted_in(answer), without=left_out)
    if found.chunks:
        return Next(found.chunks[0].runs[0].source, is_record=True)
    return Next(max(start, found.next_source), is_record=False)
