"""Where partitions stand, for whoever translates: the offset map settled against the target's log.

Works beside a running replicator, which may append thousands of records between two of our requests. So the
last batch in the log is looked at: its sequence number and offset, compared with those of the map's last
mark, prove that every record between them was the flow's. The log is looked at first and the map read
afterwards: an intent is durable before its batch, so the map knows all that the log held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from drkit.flow_state.copied_topics import CopiedPartition, Producers
from drkit.kafka.partition_offsets import leader_of, listed
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import EARLIEST, LATEST, TopicMetadata, aborted_in, fetch_one, metadata
from drkit.model import TopicPartition
from drkit.offsets import MapKey, PartitionMap, Unavailable
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.resolve import NeedLog, Resolution, resolve
from drkit.offsets.translation import Place
from drkit.replicate import mapstore
from drkit.replicate.mapstore import Unreadable
from drkit.replicate.planner import bucket_of
from drkit.replicate.resume import scan
from drkit.replicate.verify_map import FixedEnd
from drkit.wire import read_header, visible
from drkit.wire.header import HEADER_SIZE

_ONE_BATCH: Final = 1
"""As a fetch limit: a broker returns the first batch whole, however large."""
_HOLE_BYTES: Final = 64 * 1024
_NO_ID: Final = UUID(int=0)
"""Of a topic that is not there."""
_MISSING: Final = frozenset({3, 100})


@dataclass(slots=True)
class _Seen:
    """What one look at the target's log showed of a partition."""

    start: int
    end: int
    next_sequence: int | None = None
    """Behind the batch that ends at `end`, when it is the flow's and was appended in live mode."""


class Places:
    """Settles partitions of one flow, again and again; what was read of the map is kept.

    :param target: connected
    :param source: the source's alias
    """

    def __init__(self, target: RawCluster, source: str) -> None:
        self._target = target
        self._name = mapstore.topic_name(source)
        self._map_id: UUID | None = None
        self._buckets: dict[int, FixedEnd] = {}
        self._topics: dict[str, TopicMetadata] = {}

    async def look(
        self, partitions: Iterable[CopiedPartition], producers: Producers, source: RawCluster | None
    ) -> dict[TopicPartition, Place | Unavailable]:
        """Where partitions stand now, by source partition.

        :param source: asked for its ends; None when it is gone, then nothing more is expected from it
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        wanted = list(partitions)
        topics = await metadata(self._target, sorted({w.target.topic for w in wanted} | {self._name}))
        self._topics = topics
        out: dict[TopicPartition, Place | Unavailable] = {}
        for w in wanted:
            if why := _gone(topics[w.target.topic], w):
                out[w.source] = Unavailable(why)
        if why := self._other_map(producers.map_id):
            return dict.fromkeys((w.source for w in wanted), Unavailable(why)) | out
        asked = [w for w in wanted if w.source not in out]
        seen = await self._look_at_log(asked, producers.current)
        await self._read_map(topics[self._name], asked)
        await self._grown(asked, seen)
        placing = {
            w.source: self._target.loop.spawn(self._place, w, seen[w.target], producers)
            for w in asked
            if w.target in seen
        }
        for w in asked:
            if w.source in placing:
                out[w.source] = await placing[w.source]
            else:
                out[w.source] = Unavailable(
                    f"the leader of {w.target} on {self._target.alias} does not answer"
                )
        if source is not None:
            out |= await self._with_source(source, asked, out, producers)
            return out
        return {at: replace(p, frozen=True) if isinstance(p, Place) else p for at, p in out.items()}

    # -- the target ---------------------------------------------------------------------------------

    async def _look_at_log(self, wanted: list[CopiedPartition], current: int) -> dict[TopicPartition, _Seen]:
        starts = await listed(self._target, self._topics, [w.target for w in wanted], EARLIEST)
        ends = await listed(self._target, self._topics, [w.target for w in wanted], LATEST)
        out = {at: _Seen(start, ends[at]) for at, start in starts.items() if at in ends}
        asked = {
            at: self._target.loop.spawn(self._last_batch, at, s, current) for at, s in out.items() if s.end
        }
        for at, future in asked.items():
            out[at] = await future
        return out

    async def _last_batch(self, at: TopicPartition, seen: _Seen, current: int) -> _Seen:
        """Take the log's last batch as its end, when it tells the flow's sequence number there."""
        topic = self._topics[at.topic]
        if seen.end <= seen.start:
            return seen
        answer = await fetch_one(
            self._target, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition,
            seen.end - 1, max_bytes=_ONE_BATCH, max_wait_ms=0,
        )  # fmt: skip
        data = answer.records or b""
        if answer.error_code or len(data) < HEADER_SIZE:
            return seen
        header = read_header(data)
        if header.is_control or header.is_transactional or header.producer_id < 0:
            return seen
        sequence = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCE_MODULUS
        return _Seen(seen.start, header.next_offset, sequence if header.producer_id == current else None)

    def _other_map(self, expected: str) -> str:
        """Why the map that is there is none: made anew, it says that nothing was ever copied."""
        found = self._topics[self._name]
        if not expected or not found.leaders or str(found.topic_id) == expected:
            return ""
        return (
            f"the offset map {self._name} on {self._target.alias} was deleted and made again:"
            f" it had the id {expected}, now {found.topic_id}"
        )

    async def _read_map(self, topic: TopicMetadata, wanted: list[CopiedPartition]) -> None:
        if topic.leaders and topic.topic_id != self._map_id:
            self._map_id, self._buckets = topic.topic_id, {}
        count = len(topic.leaders)
        numbers = sorted({bucket_of(*w.source, count) for w in wanted}) if count else ()
        # Together: each may have to wait for a transaction of bulk mode.
        reading = [
            self._target.loop.spawn(
                self._buckets.setdefault(n, FixedEnd(n)).read, self._target, self._name, topic
            )
            for n in numbers
        ]
        for bucket in reading:
            await bucket

    def _state(self, w: CopiedPartition) -> PartitionMap:
        count = len(self._topics[self._name].leaders)
        if not count:
            return PartitionMap()
        return self._buckets[bucket_of(*w.source, count)].of(w.source_id, w.target_id, w.source.partition)

    def _doubt(self, w: CopiedPartition) -> str:
        """Why the map of a partition cannot be relied on."""
        bucket = self._buckets.get(bucket_of(*w.source, len(self._topics[self._name].leaders) or 1))
        key = MapKey(w.source_id, w.target_id, w.source.partition)
        return bucket.doubt(self._name, key) if bucket is not None else ""

    @property
    def unreadable(self) -> dict[str, tuple[Unreadable, ...]]:
        """Records of the offset map that could not be read, by partition of its topic."""
        return {f"{self._name}-{n}": tuple(b.unreadable) for n, b in self._buckets.items() if b.unreadable}

    def _confirmed(self, w: CopiedPartition) -> int:
        tail = self._state(w).tail
        return tail.downstream if tail else 0

    async def _grown(self, wanted: list[CopiedPartition], seen: dict[TopicPartition, _Seen]) -> None:
        """Where the map vouches for more than the log held, the log grew meanwhile, or lost its tail."""
        further = [w for w in wanted if w.target in seen and self._confirmed(w) > seen[w.target].end]
        now = await listed(self._target, self._topics, [w.target for w in further], LATEST)
        for w in further:
            end = min(now.get(w.target, 0), self._confirmed(w))
            if end > seen[w.target].end:
                seen[w.target] = _Seen(seen[w.target].start, end)

    async def _place(self, w: CopiedPartition, seen: _Seen, producers: Producers) -> Place | Unavailable:
        if doubt := self._doubt(w):
            return Unavailable(doubt)
        known = self._state(w)
        # What this look finds is written down by the copier alone: the next one starts from the map again.
        state = replace(known, segments=known.segments.copy())
        pending = {p.producer_id for p in state.pending}
        own = producers.own | pending
        answer = resolve(state, end=seen.end, next_sequence=seen.next_sequence, own_ids=own)
        if isinstance(answer, NeedLog):
            topic = self._topics[w.target.topic]
            node = topic.leaders[w.target.partition].node
            log = await scan(self._target, node, w.target, topic.topic_id, answer.start, seen.end)
            answer = resolve(state, end=seen.end, next_sequence=None, own_ids=own, log=log)
        if not isinstance(answer, Resolution):
            return Unavailable(
                f"the target's log from offset {answer.start} on does not settle the offset map"
            )
        if answer.upstream is None and not self._topics[self._name].leaders and seen.end > seen.start:
            return Unavailable(f"the offset map {self._name} does not exist on {self._target.alias}")
        return Place(answer.segments, answer.upstream, seen.start, seen.end, answer.copied_end)

    # -- the source ---------------------------------------------------------------------------------

    async def _with_source(
        self,
        source: RawCluster,
        asked: list[CopiedPartition],
        places: Mapping[TopicPartition, Place | Unavailable],
        producers: Producers,
    ) -> dict[TopicPartition, Place | Unavailable]:
        """Add where the source begins and ends, and what at the frontier is a hole there."""
        topics = await metadata(source, sorted({w.source.topic for w in asked}))
        known = [w.source for w in asked if leader_of(topics, w.source) >= 0]
        starts = await listed(source, topics, known, EARLIEST)
        ends = await listed(source, topics, known, LATEST)
        out: dict[TopicPartition, Place] = {}
        looking: dict[TopicPartition, Any] = {}
        for at, place in ((w.source, places[w.source]) for w in asked):
            if isinstance(place, Place) and at in starts and at in ends:
                start, end = starts[at], ends[at]
                frontier = place.frontier
                if frontier is not None and start <= frontier < end:
                    of = (source, topics[at.topic], at, frontier, producers.left_out)
                    looking[at] = source.loop.spawn(_behind_hole, *of)
                elif frontier is not None and frontier < start:
                    frontier = start  # retention was faster than the copy: nothing is left to come
                out[at] = replace(place, source_start=start, source_end=end, frontier=frontier)
        for at, future in looking.items():
            out[at] = replace(out[at], frontier=await future)
        again = "the source topic was created again: what was copied is another one"
        others = [w.source for w in asked if topics[w.source.topic].topic_id not in {w.source_id, _NO_ID}]
        return out | {at: Unavailable(again) for at in others}


async def _behind_hole(
    source: RawCluster, topic: TopicMetadata, at: TopicPartition, frontier: int, left_out: frozenset[int]
) -> int:
    """The first source offset from `frontier` on at which a record stands that is to be copied.

    Markers, aborted records and what compaction left are never copied; the map's next mark passes them too,
    but up to a quarter of a minute later.
    """
    answer = await fetch_one(
        source, topic.leaders[at.partition].node, (at.topic, topic.topic_id), at.partition, frontier,
        max_bytes=_HOLE_BYTES, max_wait_ms=0,
    )  # fmt: skip
    if answer.error_code:
        return frontier
    found = visible(answer.records or b"", frontier, aborted=aborted_in(answer), without=left_out)
    return found.chunks[0].runs[0].source if found.chunks else max(frontier, found.next_source)


def _gone(topic: TopicMetadata, w: CopiedPartition) -> str:
    """Why a target partition cannot be asked; empty when it can."""
    if topic.error in _MISSING:
        return f"the target topic {w.target.topic} does not exist"
    if topic.error:
        return f"the target topic {w.target.topic} cannot be described: Kafka error code {topic.error}"
    if topic.topic_id != w.target_id:
        return f"the target topic {w.target.topic} is not the one that was copied to: it was created again"
    if w.target.partition not in topic.leaders:
        return f"the target topic has only {len(topic.leaders)} partitions"
    return "" if topic.leaders[w.target.partition].node >= 0 else "the target partition has no leader"
