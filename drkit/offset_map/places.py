"""Where partitions are, for translation: what the map and the target's log say, and the source's ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from drkit.flow_state.copied_topics import CopiedPartition, Producers
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    TopicMetadata,
    aborted_in,
    fetch_one,
    leader_of,
    listed,
    metadata,
)
from drkit.model import TopicPartition
from drkit.offset_map.bucket import UnreadableRecord
from drkit.offset_map.locate import NO_ID, Located, PartitionLocator
from drkit.offsets import Unavailable
from drkit.offsets.crossing import Crossing
from drkit.offsets.translation import PartitionPosition
from drkit.wire import visible

_HOLE_BYTES: Final = 64 * 1024
RECREATED: Final = "the source topic was created again: what was copied is another one"
"""Why a partition has no place: the topic of the source has another id than the one that was copied."""


class PositionReader:
    """Settles partitions of one flow, again and again; what was read of the map is kept.

    :param target: connected
    :param source: the source's alias
    """

    def __init__(self, target: RawCluster, source: str) -> None:
        self._locator = PartitionLocator(target, offset_map_topic(source))

    async def look(
        self, partitions: Iterable[CopiedPartition], producers: Producers, source: RawCluster | None
    ) -> dict[TopicPartition, PartitionPosition | Unavailable]:
        """Where partitions are now, by source partition.

        :param source: asked for its ends; None when it is gone, then nothing more is expected from it
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        wanted = list(partitions)
        located = await self.locate(wanted, producers)
        crossings = {w.source: w.crossings for w in wanted}
        out = {at: _place(found, crossings[at]) for at, found in located.items()}
        if source is not None:
            asked = [w for w in wanted if isinstance(out[w.source], PartitionPosition)]
            return out | await self._with_source(source, asked, out, producers)
        return {
            at: replace(p, frozen=True) if isinstance(p, PartitionPosition) else p for at, p in out.items()
        }

    async def locate(
        self, partitions: Iterable[CopiedPartition], producers: Producers
    ) -> dict[TopicPartition, Located]:
        """What the map and the target's log say now, by source partition. Raises as :meth:`look`."""
        return await self._locator.locate(partitions, producers.own, map_id=producers.map_id)

    @property
    def unreadable(self) -> dict[str, tuple[UnreadableRecord, ...]]:
        """Records of the offset map that could not be read, by partition of its topic."""
        return self._locator.unreadable

    # -- the source ---------------------------------------------------------------------------------

    async def _with_source(
        self,
        source: RawCluster,
        asked: list[CopiedPartition],
        places: Mapping[TopicPartition, PartitionPosition | Unavailable],
        producers: Producers,
    ) -> dict[TopicPartition, PartitionPosition | Unavailable]:
        """Add where the source begins and ends, and what at the frontier is a hole there."""
        topics = await metadata(source, sorted({w.source.topic for w in asked}))
        known = [w.source for w in asked if leader_of(topics, w.source) >= 0]
        starts = await listed(source, topics, known, EARLIEST)
        ends = await listed(source, topics, known, LATEST)
        out: dict[TopicPartition, PartitionPosition] = {}
        looking: dict[TopicPartition, Any] = {}
        for w in asked:
            at, place = w.source, places[w.source]
            if isinstance(place, PartitionPosition) and at in starts and at in ends:
                start, end = starts[at], ends[at]
                frontier = place.frontier
                if frontier is not None and start <= frontier < end:
                    left_out = w.left_out_at(frontier, producers.left_out)
                    of = (source, topics[at.topic], at, frontier, left_out)
                    looking[at] = source.loop.spawn(_behind_hole, *of)
                elif frontier is not None and frontier < start:
                    frontier = start  # retention was faster than the copy: nothing is left to come
                out[at] = replace(place, source_start=start, source_end=end, frontier=frontier)
        for at, future in looking.items():
            out[at] = replace(out[at], frontier=await future)
        others = [w.source for w in asked if topics[w.source.topic].topic_id not in {w.source_id, NO_ID}]
        return out | {at: Unavailable(RECREATED) for at in others}


async def _behind_hole(
    source: RawCluster, topic: TopicMetadata, at: TopicPartition, frontier: int, left_out: frozenset[int]
) -> int:
    """The first source offset from `frontier` on with a record that is to be copied.

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


def _place(found: Located, crossings: tuple[Crossing, ...]) -> PartitionPosition | Unavailable:
    if isinstance(found.answer, Unavailable):
        return found.answer
    answer = found.answer
    return PartitionPosition(
        answer.segments, answer.upstream, found.start, found.end or 0, answer.copied_end,
        foreign=tuple(answer.foreign), crossings=crossings,
    )  # fmt: skip
