"""Where partitions are, for code that only reads: the offset map settled against the target's log."""

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
from drkit.offset_map.bucket import MapBucket, UnreadableRecord
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
    """What map and log say of a partition."""

    answer: Resolution | Unavailable
    state: PartitionMap = field(default_factory=PartitionMap)
    """What the map alone says."""
    start: int = 0
    """First offset left on the target; 0 where it was not asked."""
    end: int | None = None
    """The target's end; None: it is unknown."""
    sound: bool = True
    """The map itself can be relied on, also where there is no answer now."""

    @property
    def dropped(self) -> int:
        """Return how many source offsets were copied, and are lost at the end of the target's log."""
        answer, tail = self.answer, self.state.tail
        if tail is None or not isinstance(answer, Resolution) or answer.truncated_from is None:
            return 0
        return max(0, tail.upstream - (answer.upstream or 0))


class PartitionLocator:
    """Settles partitions of one flow, again and again; what was read of the map is kept.

    :param target: connected
    :param map_topic: name of the offset map
    """

    def __init__(self, target: RawCluster, map_topic: str) -> None:
        self.target = target
        self.name = map_topic
        self.topics: dict[str, TopicMetadata] = {}
        """The targets' topics and the map as they were at the last look."""
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
        """Where partitions are now, by source partition.

        The leaders are asked first and the map is read second: a claim is durable before its batch, so the
        map knows all that the log held (decision 9).

        :param own_ids: live producer ids of the flow
        :param map_id: id of the map topic; empty: any topic of that name
        :param scan_up_to: how many target offsets may be read from a log where numbers do not settle the
            map; None: as many as it takes
        :param is_copying: a replicator may be appending; False asks fewer bytes of the leaders
        :raises RawError: the target stopped answering
        :raises Failed: the offset map cannot be read
        """
        wanted = list(partitions)
        self.topics = await metadata(self.target, sorted({w.target.topic for w in wanted} | {self.name}))
        if why := self._other_map(map_id):
            return {w.source: Located(Unavailable(why)) for w in wanted}
        out = {
            w.source: Located(Unavailable(why))
            for w in wanted
            if (why := _gone(self.topics[w.target.topic], w))
        }
        asked = [w for w in wanted if w.source not in out]
        looks = await self._look(asked, is_copying=is_copying)
        await self.read(asked, undecided=is_copying)
        await self._grown(asked, looks)
        settling = {
            w.source: self.target.loop.spawn(self._settle, w, looks[w.target], own_ids, scan_up_to)
            for w in asked
            if w.target in looks
        }
        for w in asked:
            if w.source in settling:
                out[w.source] = self._located(w, await settling[w.source])
            else:
                out[w.source] = Located(Unavailable(self._silent(w)))
        return out

    async def _look(self, wanted: list[CopiedPartition], *, is_copying: bool) -> dict[TopicPartition, Look]:
        targets = [w.target for w in wanted]
        if is_copying:
            promoted = {w.target for w in wanted if w.until is not None}
            return await look_while_copying(self.target, self.topics, targets, promoted)
        return await look_at_leaders(self.target, self.topics, map(PartitionQuery, targets))

    async def read(self, wanted: Iterable[CopiedPartition], *, undecided: bool = True) -> None:
        """Read the map on for some partitions."""
        topic = self.topics[self.name]
        if topic.leaders and topic.topic_id != self._map_id:
            self._map_id, self._buckets = topic.topic_id, {}
        count = len(topic.leaders)
        numbers = sorted({bucket_of(*w.source, count) for w in wanted}) if count else ()
        # Together: each may have to wait for a transaction of bulk mode.
        buckets = [self._buckets.setdefault(n, MapBucket(n, self.name)) for n in numbers]
        await self.target.loop.together(partial(read_on, self.target, topic, undecided=undecided), buckets)

    def state(self, w: CopiedPartition) -> PartitionMap:
        """What the map says of a partition, as it was read last."""
        bucket, key = self._bucket(w), MapKey(w.source_id, w.target_id, w.source.partition)
        return PartitionMap() if bucket is None else bucket.partitions.get(key, PartitionMap())

    def _bucket(self, w: CopiedPartition) -> MapBucket | None:
        count = len(self.topics[self.name].leaders)
        return self._buckets.get(bucket_of(*w.source, count)) if count else None

    @property
    def unreadable(self) -> dict[str, tuple[UnreadableRecord, ...]]:
        """Records of the offset map that could not be read, by partition of its topic."""
        return {f"{self.name}-{n}": tuple(b.unreadable) for n, b in self._buckets.items() if b.unreadable}

    def _other_map(self, expected: str) -> str:
        found = self.topics[self.name]
        if not expected or not found.leaders or str(found.topic_id) == expected:
            return ""
        return (
            f"the offset map {self.name} on {self.target.alias} was deleted and made again:"
            f" it had the id {expected}, now {found.topic_id}"
        )

    async def _grown(self, wanted: list[CopiedPartition], looks: dict[TopicPartition, Look]) -> None:
        """Ask again where the map vouches for more than the log held: the log grew, or lost its tail."""
        further = [
            w for w in wanted if w.target in looks and confirmed_end(self.state(w)) > looks[w.target].end >= 0
        ]
        now = await listed(self.target, self.topics, [w.target for w in further], LATEST)
        for w in further:
            looks[w.target] = grown(looks[w.target], self.state(w), now.get(w.target, 0))

    async def _settle(
        self, w: CopiedPartition, look: Look, own_ids: frozenset[int], scan_up_to: int | None
    ) -> Settled:
        bucket = self._bucket(w)
        key = MapKey(w.source_id, w.target_id, w.source.partition)
        if bucket is not None and (doubt := bucket.doubt(key)) is not None:
            return Settled(doubt, 0, look)
        wanted = Wanted(
            w.target, self.state(w), own_ids, began_at=w.began_at, emptied=w.emptied,
            tail_end=w.tail_end, until=w.until,
        )  # fmt: skip
        return await settle_one(self.target, self.topics, wanted, look, scan_up_to)

    def _located(self, w: CopiedPartition, settled: Settled) -> Located:
        state, look, answer = self.state(w), settled.look, settled.answer
        end = look.end if look.end >= 0 else None
        if answer is None and is_stale(look, state):
            why = (
                f"{w.target}: a broker answers that leads no longer (its leader epoch is {look.leader_epoch})"
            )
            return Located(Unavailable(why), state)
        if answer is None:
            return Located(Unavailable(self._silent(w, settled.error)), state, max(0, look.start), end)
        bare = isinstance(answer, Resolution) and answer.upstream is None
        if bare and not self.topics[self.name].leaders and look.end > max(0, look.start):
            why = f"the offset map {self.name} does not exist on {self.target.alias}"
            return Located(Unavailable(why), state, max(0, look.start), end)
        sound = settled.unread or not isinstance(answer, Unavailable)
        return Located(answer, state, max(0, look.start), end, sound)

    def _silent(self, w: CopiedPartition, code: int = 0) -> str:
        evidence = f" (Kafka error code {code})" if code else ""
        return f"the leader of {w.target} on {self.target.alias} does not answer{evidence}"


def _gone(topic: TopicMetadata, w: CopiedPartition) -> str:
    if topic.error in codes.NO_SUCH_TOPIC:
        return f"the target topic {w.target.topic} does not exist"
    if topic.error:
        return f"the target topic {w.target.topic} cannot be described: Kafka error code {topic.error}"
    if topic.topic_id != w.target_id:
        return f"the target topic {w.target.topic} is not the one that was copied to: it was created again"
    if w.target.partition not in topic.leaders:
        return f"the target topic has only {counted(len(topic.leaders), 'partition')}"
    return "" if topic.leaders[w.target.partition].node >= 0 else "the target partition has no leader"
