"""The copied position of each partition, from the target alone: its map, and its leaders' answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.records import CutRecord
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition
from drkit.offset_map.locate import Located, PartitionLocator
from drkit.offsets.resolution import Foreign, Resolution


class Copied(NamedTuple):
    """A topic that the flow's state says is copied."""

    topic: str
    source_id: UUID
    target_topic: str
    target_id: UUID
    cut: CutRecord | None = None
    """Where copying began after a turn."""

    def pair(self, number: int) -> CopiedPartition:
        """One of its partitions."""
        at, to = TopicPartition(self.topic, number), TopicPartition(self.target_topic, number)
        found = CopiedPartition(at, to, self.source_id, self.target_id)
        if self.cut is None:
            return found
        cut, rebuilt = self.cut.skip_from.get(number), self.cut.rebuilt.get(number)
        return found._replace(skip_from=cut, rebuilt=rebuilt, emptied=self.cut.emptied.get(number, 0),
                              crossings=self.cut.crossings_of(number))  # fmt: skip


class CopyPosition(NamedTuple):
    """Copied position of one partition."""

    frontier: int | None
    """First source offset that is not on the target; 0: nothing was copied; None: see the reason."""
    target_end: int | None
    exact: bool = True
    segments: int = 0
    reason: str = ""
    foreign: tuple[Foreign, ...] = ()
    """Records in the log that the flow did not write, after all that the map leads around."""


@dataclass(slots=True)
class CopyLocator:
    """Reads the map of a flow; keeps what it has read.

    :param scan_up_to: maximum number of target offsets to read from a log where numbers do not settle the map
    """

    cluster: RawCluster
    map_topic: str
    scan_up_to: int = 0
    _locator: PartitionLocator | None = field(default=None, init=False)

    async def places(
        self, copied: Iterable[Copied], own_ids: frozenset[int]
    ) -> dict[TopicPartition, CopyPosition]:
        """Every partition of these topics, by its name on the source.

        :raises RawError: the target does not answer
        :raises Failed: the map cannot be read
        """
        copied = list(copied)
        locator = self._locator = self._locator or PartitionLocator(self.cluster, self.map_topic)
        topics = await metadata(self.cluster, sorted({c.target_topic for c in copied}))
        out: dict[TopicPartition, CopyPosition] = {}
        wanted: list[CopiedPartition] = []
        for c in copied:
            found = topics[c.target_topic]
            if found.error or found.topic_id != c.target_id:
                out[TopicPartition(c.topic, -1)] = CopyPosition(
                    None, None, reason="the target topic was deleted"
                )
                continue
            wanted += [c.pair(number) for number in found.leaders]
        located = await locator.locate(wanted, own_ids, scan_up_to=self.scan_up_to, is_copying=False)
        return out | {at: _place(found) for at, found in located.items()}


def _place(found: Located) -> CopyPosition:
    state, end = found.state, found.end
    tail, size = state.tail, len(state.segments)
    foreign = tuple(found.answer.foreign) if isinstance(found.answer, Resolution) else ()
    if tail is None and not state.pending and end is not None:
        reason = "the offset map knows nothing of it" if end else ""
        return CopyPosition(None if end else 0, end, reason=reason, foreign=foreign)
    if isinstance(found.answer, Resolution):
        size = len(found.answer.segments)
        return CopyPosition(found.answer.upstream or 0, end, segments=size, foreign=foreign)
    committed = found.sound and tail is not None and not tail.live and not state.pending
    if committed and tail is not None and end is not None and tail.downstream <= end:
        return CopyPosition(tail.upstream, end, segments=size)  # committed together with its records
    known = tail.upstream if tail is not None and found.sound else None
    return CopyPosition(
        known,
        end,
        exact=False,
        segments=size,
        reason="" if end is not None and known else found.answer.reason,
    )
