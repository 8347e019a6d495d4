"""The offset-map topic on the target: reading it bucket by bucket, and batches of its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
import secrets
from typing import Any, NamedTuple
from uuid import UUID

from drkit.errors import Failed
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import TopicMetadata, aborted_in, fetch_one, metadata
from drkit.offsets import MapKey, MapRecord, PartitionMap, decode_record, encode_map_record
from drkit.offsets.map_record import Kind, about
from drkit.wire import Record, encode, records_in, visible

_MISSING = frozenset({3, 100})
_OFFSET_OUT_OF_RANGE = 1
_PATIENCE = 600
_PAUSE_SECONDS = 0.02


def new_nonce() -> int:
    """A number that tells one run of a writer from every other."""
    return secrets.randbits(63)


def topic_name(source: str) -> str:
    """Name of the offset-map topic on the target for a source alias."""
    return offset_map_topic(source)


def encode_batch(records: Iterable[tuple[MapKey, MapRecord]], now_ms: int) -> tuple[bytearray, int]:
    """Map records as one record batch with no producer fields yet, and how many they are."""
    pairs = [encode_map_record(key, record) for key, record in records]
    return encode([Record(i, now_ms, *pair, ()) for i, pair in enumerate(pairs)], 0), len(pairs)


def tombstones(keys: Iterable[bytes], now_ms: int) -> bytearray:
    """A batch that lets compaction remove records of the map."""
    return encode([Record(i, now_ms, key, None, ()) for i, key in enumerate(keys)], 0)


class Unreadable(NamedTuple):
    """A record in the map topic that is none of the map's."""

    offset: int
    """Where in the bucket's partition; −1: not known."""
    why: str


@dataclass(slots=True)
class MapBucket:
    """What one partition of the map topic says, read up to `next_offset`."""

    bucket: int
    next_offset: int = 0
    partitions: dict[MapKey, PartitionMap] = field(default_factory=dict)
    keys: dict[MapKey, dict[bytes, None]] = field(default_factory=dict)
    """Keys of the intents and packs that still stand, per partition: what a new pack replaces."""
    marked: set[MapKey] = field(default_factory=set)
    """Partitions of which a mark was read."""
    unreadable: list[Unreadable] = field(default_factory=list)
    """What somebody else wrote there, or what is damaged; such a record hides no earlier one."""
    doubtful: dict[MapKey, dict[bytes, Unreadable]] = field(default_factory=dict)
    """Those of them that have the key of a record of the map, of which nothing else is left to read."""

    def doubt(self, name: str, key: MapKey) -> str:
        """Why the map of a partition cannot be relied on; empty when it can.

        :param name: of the map topic
        """
        found = next(iter(self.doubtful.get(key, {}).values()), None)
        if found is None:
            return ""
        at = f"{name}-{self.bucket} at offset {found.offset}"
        return f"a record of the offset map is damaged: {at}, {found.why}"

    def of(self, source_id: UUID, target_id: UUID, partition: int) -> PartitionMap:
        """The state of one copied partition; empty when nothing was written about it."""
        return self.partitions.setdefault(MapKey(source_id, target_id, partition), PartitionMap())

    async def read(self, cluster: RawCluster, name: str, topic: TopicMetadata) -> None:
        """Read on to the end, past transactions that are still being decided.

        :raises Failed: the topic is gone, or a transaction on it stays open
        """
        for _ in range(_PATIENCE):
            leader = topic.leaders[self.bucket].node
            answer = await fetch_one(
                cluster, leader, (name, topic.topic_id), self.bucket, self.next_offset, max_wait_ms=20
            )
            if answer.error_code in _MISSING:
                expected, topic = topic.topic_id, await find_map(cluster, name)
                if topic.topic_id != expected:
                    raise made_anew(name, str(expected), topic.topic_id)
                continue
            if answer.error_code == _OFFSET_OUT_OF_RANGE:
                self.next_offset, self.keys = 0, {}
                self.marked, self.unreadable, self.doubtful = set(), [], {}
                for state in self.partitions.values():
                    state.clear()
                continue
            if answer.error_code:
                await cluster.loop.sleep(_PAUSE_SECONDS)
                topic = await find_map(cluster, name)
                continue
            before = self.next_offset
            self._take(answer)
            if self.next_offset >= answer.high_watermark:
                return
            if self.next_offset == before:
                await cluster.loop.sleep(_PAUSE_SECONDS)
        raise Failed(
            "the offset map cannot be read to its end",
            where=f"{name}-{self.bucket} on {cluster.alias}",
            evidence=f"stuck at offset {self.next_offset}: an open transaction or a missing leader",
            hint="list and abort hanging transactions on the target, then start again",
        )

    def _take(self, answer: Any) -> None:
        out = visible(answer.records or b"", self.next_offset, aborted=aborted_in(answer))
        for chunk in out.chunks:
            for record in records_in(chunk):
                self.apply(record.key, record.value, record.offset)
        self.next_offset = max(self.next_offset, out.next_source)

    def apply(self, key: bytes | None, value: bytes | None, offset: int = -1) -> None:
        """Take one record of the topic; what is not ours to read is kept as such, never guessed at."""
        try:
            found = decode_record(key, value)
            where, kind = about(key or b"")
        except ValueError as error:
            self._cannot_read(key or b"", Unreadable(offset, str(error)))
            return
        if where in self.doubtful:
            self.doubtful[where].pop(key or b"", None)
        standing = self.keys.setdefault(where, {})
        if found is None:
            standing.pop(key or b"", None)
            return
        if kind is Kind.MARK:
            self.marked.add(where)
        else:
            standing[key or b""] = None
        self.partitions.setdefault(where, PartitionMap()).apply(found[1])

    def _cannot_read(self, key: bytes, found: Unreadable) -> None:
        """Once compaction has removed what stood under the same key, nobody knows what that said."""
        self.unreadable.append(found)
        try:
            where, kind = about(key)
        except ValueError:
            return  # under a key of its own it stands in nobody's way
        known = where in self.marked if kind is Kind.MARK else key in self.keys.get(where, {})
        if not known:
            self.doubtful.setdefault(where, {})[key] = found


async def find_map(cluster: RawCluster, name: str) -> TopicMetadata:
    """The map topic's id and leaders.

    :raises Failed: it does not exist
    """
    found = (await metadata(cluster, [name]))[name]
    if found.error in _MISSING:
        raise Failed(
            "the offset map topic does not exist",
            where=f"{name} on {cluster.alias}",
            evidence=f"Kafka error code {found.error}",
            hint="was it deleted? drkit replicate makes it anew and copies from the start",
        )
    return found


def made_anew(name: str, expected: str, found: UUID) -> Failed:
    """The error for a map that is another topic of the same name."""
    return Failed(
        "the offset map was deleted and made again",
        where=name,
        evidence=f"it had the id {expected}, now {found}",
        hint="start again: drkit tells what is left to do",
    )


def load(loop: EventLoop, cluster: RawCluster, name: str, buckets: Iterable[int]) -> dict[int, MapBucket]:
    """Read whole buckets of the map, blocking."""

    async def read() -> dict[int, MapBucket]:
        await cluster.connected()
        topic = await find_map(cluster, name)
        out = {b: MapBucket(b) for b in sorted(set(buckets))}
        for bucket in out.values():
            await bucket.read(cluster, name, topic)
        return out

    result: dict[int, MapBucket] = loop.run(read)
    return result
