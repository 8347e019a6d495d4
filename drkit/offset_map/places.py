"""Positions of partitions for translation: from the map, the target's log, and the source's offsets."""

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
from drkit.offset_map.locate import NO_ID, Located, PartitionLocator
from drkit.offset_map.removed import Removed, RemovedLook, first_to_copy
from drkit.offsets import Unavailable
from drkit.offsets.crossing import Crossing
from drkit.offsets.translation import PartitionPosition

RECREATED: Final = "the source topic was created again: what was copied is another one"
"""Reason for a partition without a position: the source topic has another id than the copied one."""


class PositionReader:
    """Settles partitions of one flow repeatedly; the map is read incrementally.

    :param target: connected
    :param source: the source's alias
    """

    def __init__(self, target: RawCluster, source: str) -> None:
        self._locator = PartitionLocator(target, offset_map_topic(source))
        self.read_map = self._locator.read_map
        self._removed = RemovedLook()

    async def look(
        self,
        partitions: Iterable[CopiedPartition],
        producers: Producers,
        source: RawCluster | None,
        noted: Mapping[TopicPartition, Ends] = MappingProxyType({}),
    ) -> dict[TopicPartition, PartitionPosition | Unavailable]:
        """Return the positions of partitions now, by source partition.

        :param source: read for its end offsets; None if it is lost, then no more records are expected
        :param noted: the last recorded end offsets of a lost source
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        wanted = list(partitions)
        located = await self.locate(wanted, producers)
        crossings = {w.source: w.crossings for w in wanted}
        out = {at: _position_of(found, crossings[at]) for at, found in located.items()}
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
        """Return positions from the map and the target's log, by source partition. Raises as :meth:`look`."""
        return await self._locator.locate(partitions, producers.own | producers.bulk, map_id=producers.map_id)

    async def _with_source(
        self,
        source: RawCluster,
        copies: list[CopiedPartition],
        positions: Mapping[TopicPartition, PartitionPosition | Unavailable],
        producers: Producers,
    ) -> dict[TopicPartition, PartitionPosition | Unavailable]:
        """Add the source's start and end offsets, and move the frontier past offsets without records."""
        topics = await metadata(source, sorted({copy.source.topic for copy in copies}))
        led = [copy.source for copy in copies if leader_of(topics, copy.source) >= 0]
        starts = await listed(source, topics, led, EARLIEST)
        ends = await listed(source, topics, led, LATEST)
        with_ends: dict[TopicPartition, PartitionPosition] = {}
        pending: dict[TopicPartition, Any] = {}
        for copy in copies:
            tp, position = copy.source, positions[copy.source]
            if isinstance(position, PartitionPosition) and tp in starts and tp in ends:
                start, end = starts[tp], ends[tp]
                frontier = position.frontier
                if frontier is not None and start <= frontier < end:
                    left_out = copy.left_out_at(frontier, producers.left_out)
                    arguments = (source, topics[tp.topic], tp, frontier, left_out)
                    pending[tp] = source.loop.spawn(first_to_copy, *arguments)
                elif frontier is not None and frontier < start:
                    frontier = start  # retention deleted records before they were copied
                with_ends[tp] = replace(position, source_start=start, source_end=end, frontier=frontier)
        for tp, future in pending.items():
            with_ends[tp] = replace(with_ends[tp], frontier=await future)
        recreated = [c.source for c in copies if topics[c.source.topic].topic_id not in {c.source_id, NO_ID}]
        return with_ends | {tp: Unavailable(RECREATED) for tp in recreated}


def _position_of(located: Located, crossings: tuple[Crossing, ...]) -> PartitionPosition | Unavailable:
    if isinstance(located.answer, Unavailable):
        return located.answer
    answer = located.answer
    return PartitionPosition(
        answer.segments, answer.upstream, located.start, located.end or 0, answer.copied_end,
        foreign=tuple(answer.foreign), crossings=crossings, leader_epoch=answer.leader_epoch,
    )  # fmt: skip
