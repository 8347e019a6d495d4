"""Where partitions are, for translation: what the map and the target's log say, and the source's ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from drkit.flow_state.copied_topics import CopiedPartition, Producers
from drkit.flow_state.kinds.run import Ends
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import EARLIEST, LATEST, leader_of, listed, metadata
from drkit.model import TopicPartition
from drkit.offset_map.bucket import UnreadableRecord
from drkit.offset_map.locate import NO_ID, Located, PartitionLocator
from drkit.offset_map.removed import Removed, RemovedLook, first_to_copy
from drkit.offsets import Unavailable
from drkit.offsets.crossing import Crossing
from drkit.offsets.translation import PartitionPosition

RECREATED: Final = "the source topic was created again: what was copied is another one"
"""Why a partition has no place: the topic of the source has another id than the one that was copied."""


class PositionReader:
    """Settles partitions of one flow, again and again; what was read of the map is kept.

    :param target: connected
    :param source: the source's alias
    """

    def __init__(self, target: RawCluster, source: str) -> None:
        self._locator = PartitionLocator(target, offset_map_topic(source))
        self._removed = RemovedLook()

    async def look(
        self,
        partitions: Iterable[CopiedPartition],
        producers: Producers,
        source: RawCluster | None,
        noted: Mapping[TopicPartition, Ends] = MappingProxyType({}),
    ) -> dict[TopicPartition, PartitionPosition | Unavailable]:
        """Where partitions are now, by source partition.

        :param source: asked for its ends; None when it is gone, then nothing more is expected from it
        :param noted: the ends of a source that is gone, as they were noted last
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        wanted = list(partitions)
        located = await self.locate(wanted, producers)
        crossings = {w.source: w.crossings for w in wanted}
        out = {at: _place(found, crossings[at]) for at, found in located.items()}
        if source is not None:
            asked = [w for w in wanted if isinstance(out[w.source], PartitionPosition)]
            out |= await self._with_source(source, asked, out, producers)
        known = {w: p for w in wanted if isinstance(p := out[w.source], PartitionPosition)}
        source_starts = {w.source: p.source_start for w, p in known.items() if p.source_start is not None}
        removed = {w: Removed.of(located[w.source], p.start, w.emptied, p.frontier) for w, p in known.items()}
        starts = {tp: e.start for tp, e in noted.items()} if source is None else source_starts
        missing = await self._removed.missing(
            (source, self._locator.target), removed, starts, producers.left_out
        )
        return out | {
            tp: replace(
                p,
                frozen=source is None,
                missing=missing.get(tp),
                dropped=max(located[tp].dropped, noted[tp].dropped(p.frontier or 0) if tp in noted else 0),
            )
            for (tp, *_), p in known.items()
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
                    looking[at] = source.loop.spawn(first_to_copy, *of)
                elif frontier is not None and frontier < start:
                    frontier = start  # retention was faster than the copy: nothing is left to come
                out[at] = replace(place, source_start=start, source_end=end, frontier=frontier)
        for at, future in looking.items():
            out[at] = replace(out[at], frontier=await future)
        others = [w.source for w in asked if topics[w.source.topic].topic_id not in {w.source_id, NO_ID}]
        return out | {at: Unavailable(RECREATED) for at in others}


def _place(found: Located, crossings: tuple[Crossing, ...]) -> PartitionPosition | Unavailable:
    if isinstance(found.answer, Unavailable):
        return found.answer
    answer = found.answer
    return PartitionPosition(
        answer.segments, answer.upstream, found.start, found.end or 0, answer.copied_end,
        foreign=tuple(answer.foreign), crossings=crossings,
    )  # fmt: skip
