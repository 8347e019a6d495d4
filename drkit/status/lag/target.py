"""The copied position of each partition, from the target alone: its map and its leaders' state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import EARLIEST, listed, metadata
from drkit.model import TopicPartition
from drkit.offset_map.locate import Located, PartitionLocator
from drkit.offset_map.removed import Removed, RemovedLook
from drkit.offsets.resolution import Foreign, Resolution
from drkit.status.lag.source import Ends


class CopyPosition(NamedTuple):
    """Copied position of one partition."""

    frontier: int | None
    """First source offset that is not on the target; 0: nothing was copied; None: see the reason."""
    target_end: int | None
    exact: bool = True
    segments: int = 0
    reason: str = ""
    foreign: tuple[Foreign, ...] = ()
    """Records of other producers in the log, after those that the map covers."""
    removed: Removed | None = None
    """Copied records that the target has removed, or None without such a topic."""
    missing: int = 0
    """Number of source offsets of those that the source may keep: :meth:`CopyLocator.compared`."""
    dropped: int = 0
    """Number of copied source offsets that the target has lost at the end, as far as the map has them."""


@dataclass(slots=True)
class CopyLocator:
    """Reads the map of a flow incrementally.

    :param scan_up_to: maximum number of target offsets to read from a log where numbers do not settle the map
    """

    cluster: RawCluster
    map_topic: str
    scan_up_to: int = 0
    removed: RemovedLook = field(default_factory=RemovedLook)
    _locator: PartitionLocator | None = field(default=None, init=False)

    async def places(self, known: CopiedTopics, names: Iterable[str]) -> dict[TopicPartition, CopyPosition]:
        """Return the position of every partition of these topics, by its name on the source.

        :raises RawError: the target does not answer
        :raises Failed: the map cannot be read
        """
        copied = {name: known.topics[name] for name in names}
        locator = self._locator = self._locator or PartitionLocator(self.cluster, self.map_topic)
        topics = await metadata(self.cluster, sorted({target for target, _, _ in copied.values()}))
        positions: dict[TopicPartition, CopyPosition] = {}
        copies: list[CopiedPartition] = []
        for name, (target, _, target_id) in copied.items():
            topic = topics[target]
            if topic.error or topic.topic_id != target_id:
                reason = "the target topic was deleted"
                positions[TopicPartition(name, -1)] = CopyPosition(None, None, reason=reason)
                continue
            copies += [known.pair(name, number)._replace(until=None) for number in topic.leaders]
        ids, limit = known.producers.own, self.scan_up_to
        located = await locator.locate(copies, ids, scan_up_to=limit, is_copying=False)
        starts = await listed(self.cluster, topics, [w.target for w in copies], EARLIEST)
        positions |= {w.source: _with_removed(located[w.source], w, starts.get(w.target, 0)) for w in copies}
        return positions

    async def compared(
        self,
        positions: Mapping[TopicPartition, CopyPosition],
        known: CopiedTopics,
        source: RawCluster | None,
        ends: Mapping[TopicPartition, Ends],
    ) -> dict[TopicPartition, CopyPosition]:
        """Return the positions with the number of records that are missing at the beginning of each copy.

        :param source: None while it does not answer
        :param ends: of the source; if it does not answer, as last recorded
        :raises RawError: a cluster stopped answering
        """
        removed = {
            known.pair(*tp): position.removed
            for tp, position in positions.items()
            if tp in ends and tp.topic in known.topics and position.removed is not None
        }
        starts = {tp: e.start for tp, e in ends.items()}
        clusters = source, self.cluster
        missing = await self.removed.missing(clusters, removed, starts, known.producers.left_out)
        return dict(positions) | {
            tp: positions[tp]._replace(missing=end - first, reason=positions[tp].reason or unclear(known, tp))
            for tp, (first, end) in missing.items()
        }


def unclear(known: CopiedTopics, tp: TopicPartition) -> str:
    """Return why it is unknown what a copy may remove of a partition, or an empty text."""
    return "" if tp.topic in known.retention else f"no retention of {tp.topic} is on record"


def _with_removed(located: Located, w: CopiedPartition, start: int) -> CopyPosition:
    position = _position(located)
    return position._replace(removed=Removed.of(located, start, w.emptied, position.frontier))


def _position(located: Located) -> CopyPosition:
    state, end = located.state, located.end
    tail, size = state.tail, len(state.segments)
    foreign = tuple(located.answer.foreign) if isinstance(located.answer, Resolution) else ()
    if tail is None and not state.pending and end is not None:
        reason = "the offset map knows nothing of it" if end else ""
        return CopyPosition(None if end else 0, end, reason=reason, foreign=foreign)
    if isinstance(located.answer, Resolution):
        size = len(located.answer.segments)
        frontier = located.answer.upstream or 0
        return CopyPosition(frontier, end, segments=size, foreign=foreign, dropped=located.dropped)
    committed = located.sound and tail is not None and not tail.live and not state.pending
    if committed and tail is not None and end is not None and tail.downstream <= end:
        return CopyPosition(tail.upstream, end, segments=size)  # committed together with its records
    known = tail.upstream if tail is not None and located.sound else None
    reason = "" if end is not None and known else located.answer.reason
    return CopyPosition(known, end, exact=False, segments=size, reason=reason)
