"""Positions of partitions for read-only callers: the offset map settled against the target's log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import UUID

from drkit.counted import counted
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import LATEST, TopicMetadata, listed, metadata
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.look import Look, PartitionQuery, look_at_leaders, look_while_copying
from drkit.offset_map.reading import read_on
from drkit.offset_map.settling import Settled, Wanted, confirmed_end, grown, is_stale, settle_one
from drkit.offset_map.topic import bucket_of
from drkit.offsets import MapKey, PartitionMap, Unavailable
from drkit.offsets.resolution import Resolution

NO_ID: Final = UUID(int=0)
"""Id of a topic that does not exist."""


@dataclass(frozen=True, slots=True)
class Located:
    """The position of a partition according to its map and its log."""

    answer: Resolution | Unavailable
    state: PartitionMap = field(default_factory=PartitionMap)
    """The state of the map alone."""
    start: int = 0
    """Log start offset on the target; 0 if it was not read."""
    end: int | None = None
    """The target's end; None: it is unknown."""
    sound: bool = True
    """The map itself is reliable, even if there is no answer now."""

    @property
    def dropped(self) -> int:
        """Return how many source offsets were copied, and are lost at the end of the target's log."""
        answer, tail = self.answer, self.state.tail
        if tail is None or not isinstance(answer, Resolution) or answer.truncated_from is None:
            return 0
        return max(0, tail.upstream - (answer.upstream or 0))


class PartitionLocator:
    """Settles partitions of one flow repeatedly; the map is read incrementally.

    :param target: connected
    :param map_topic: name of the offset map
    """

    def __init__(self, target: RawCluster, map_topic: str) -> None:
        self.target = target
        self.name = map_topic
        self.topics: dict[str, TopicMetadata] = {}
        """Metadata of the target topics and of the map, as of the last look."""
        self._map_id: UUID | None = None
        self._buckets: dict[int, MapBucket] = {}

    async def locate(
        self,
        partitions: Iterable[CopiedPartition],
        own_ids: frozenset[int],
        *,
        map_id: str = "",
        scan_up_to: int | None = None,
        is_copying: bool = True,
    ) -> dict[TopicPartition, Located]:
        """Return the positions of partitions now, by source partition.

        The logs are read first and the map second: a claim is durable before its batch, so the map covers
        every batch of the log (decision 9).

        :param own_ids: producer ids of the flow; those of bulk mode only if `is_copying`, because else the
            logs are read past open transactions
        :param map_id: id of the map topic; empty: any topic of that name
        :param scan_up_to: how many target offsets may be read from a log where numbers do not settle the
            map; None: as many as it takes
        :param is_copying: a replicator may be appending; False asks fewer bytes of the leaders
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        copies = list(partitions)
        self.topics = await metadata(self.target, sorted({c.target.topic for c in copies} | {self.name}))
        if reason := self._reason_recreated(map_id):
            return {copy.source: Located(Unavailable(reason)) for copy in copies}
        located = {
            copy.source: Located(Unavailable(reason))
            for copy in copies
            if (reason := _reason_gone(self.topics[copy.target.topic], copy))
        }
        settleable = [copy for copy in copies if copy.source not in located]
        looks = await self._look(settleable, is_copying=is_copying)
        await self.read(settleable, undecided=is_copying)
        await self._look_again(settleable, looks)
        settling = {
            copy.source: self.target.loop.spawn(self._settle, copy, looks[copy.target], own_ids, scan_up_to)
            for copy in settleable
            if copy.target in looks
        }
        for copy in settleable:
            if copy.source in settling:
                located[copy.source] = self._located(copy, await settling[copy.source])
            else:
                located[copy.source] = Located(Unavailable(self._no_answer(copy)))
        return located

    async def _look(self, copies: list[CopiedPartition], *, is_copying: bool) -> dict[TopicPartition, Look]:
        targets = [copy.target for copy in copies]
        if is_copying:
            promoted = {copy.target for copy in copies if copy.until is not None}
            return await look_while_copying(self.target, self.topics, targets, promoted)
        return await look_at_leaders(self.target, self.topics, map(PartitionQuery, targets))

    async def read(self, copies: Iterable[CopiedPartition], *, undecided: bool = True) -> None:
        """Read the new records of the map for some partitions."""
        topic = self.topics[self.name]
        if topic.leaders and topic.topic_id != self._map_id:
            self._map_id, self._buckets = topic.topic_id, {}
        count = len(topic.leaders)
        numbers = sorted({bucket_of(*copy.source, count) for copy in copies}) if count else ()
        # In parallel: each may have to wait for a transaction of bulk mode.
        buckets = [self._buckets.setdefault(n, MapBucket(n, self.name)) for n in numbers]
        await self.target.loop.together(partial(read_on, self.target, topic, undecided=undecided), buckets)

    async def read_map(self, copy: CopiedPartition) -> PartitionMap:
        """Return the map's state of a partition, read to its end. Raises as :meth:`locate`."""
        self.topics |= await metadata(self.target, [self.name])
        await self.read([copy])
        return self.state(copy)

    def state(self, copy: CopiedPartition) -> PartitionMap:
        """Return the map's state of a partition, as of the last read."""
        bucket, key = self._bucket(copy), MapKey(copy.source_id, copy.target_id, copy.source.partition)
        return PartitionMap() if bucket is None else bucket.partitions.get(key, PartitionMap())

    def _bucket(self, copy: CopiedPartition) -> MapBucket | None:
        count = len(self.topics[self.name].leaders)
        return self._buckets.get(bucket_of(*copy.source, count)) if count else None

    def _reason_recreated(self, expected: str) -> str:
        current = self.topics[self.name]
        if not expected or not current.leaders or str(current.topic_id) == expected:
            return ""
        return (
            f"the offset map {self.name} on {self.target.alias} was deleted and made again:"
            f" it had the id {expected}, now {current.topic_id}"
        )

    async def _look_again(self, copies: list[CopiedPartition], looks: dict[TopicPartition, Look]) -> None:
        """Read ends again where the map confirms more than the log held: the log grew, or lost its tail."""
        longer = [
            c for c in copies if c.target in looks and confirmed_end(self.state(c)) > looks[c.target].end >= 0
        ]
        ends = await listed(self.target, self.topics, [copy.target for copy in longer], LATEST)
        for copy in longer:
            looks[copy.target] = grown(looks[copy.target], self.state(copy), ends.get(copy.target, 0))

    async def _settle(
        self, copy: CopiedPartition, look: Look, own_ids: frozenset[int], scan_up_to: int | None
    ) -> Settled:
        partition = Wanted(
            copy.target, self.state(copy), own_ids, began_at=copy.began_at, emptied=copy.emptied,
            tail_end=copy.tail_end, until=copy.until, doubt=partial(self._doubt, copy),
        )  # fmt: skip
        settled = await settle_one(self.target, self.topics, partition, look, scan_up_to)
        doubt = self._doubt(copy, settled.resolution)
        return settled if doubt is None else Settled(doubt, 0, look)

    def _doubt(self, copy: CopiedPartition, resolution: Resolution | None = None) -> Unavailable | None:
        bucket, key = self._bucket(copy), MapKey(copy.source_id, copy.target_id, copy.source.partition)
        return bucket.doubt(key, resolution) if bucket is not None else None

    def _located(self, copy: CopiedPartition, settled: Settled) -> Located:
        state, look, answer = self.state(copy), settled.look, settled.answer
        end = look.end if look.end >= 0 else None
        if answer is None and is_stale(look, state):
            reason = f"a broker answers that leads no longer (its leader epoch is {look.leader_epoch})"
            return Located(Unavailable(f"{copy.target}: {reason}"), state)
        if answer is None:
            return Located(Unavailable(self._no_answer(copy, settled.error)), state, max(0, look.start), end)
        has_no_position = isinstance(answer, Resolution) and answer.upstream is None
        if has_no_position and not self.topics[self.name].leaders and look.end > max(0, look.start):
            reason = f"the offset map {self.name} does not exist on {self.target.alias}"
            return Located(Unavailable(reason), state, max(0, look.start), end)
        sound = settled.unread or not isinstance(answer, Unavailable)
        return Located(answer, state, max(0, look.start), end, sound)

    def _no_answer(self, copy: CopiedPartition, code: int = 0) -> str:
        evidence = f" (Kafka error code {code})" if code else ""
        return f"the leader of {copy.target} on {self.target.alias} does not answer{evidence}"


def _reason_gone(topic: TopicMetadata, copy: CopiedPartition) -> str:
    if topic.error in codes.NO_SUCH_TOPIC:
        return f"the target topic {copy.target.topic} does not exist"
    if topic.error:
        return f"the target topic {copy.target.topic} cannot be described: Kafka error code {topic.error}"
    if topic.topic_id != copy.target_id:
        return f"the target topic {copy.target.topic} is not the one that was copied to: it was created again"
    if copy.target.partition not in topic.leaders:
        return f"the target topic has only {counted(len(topic.leaders), 'partition')}"
    return "" if topic.leaders[copy.target.partition].node >= 0 else "the target partition has no leader"
