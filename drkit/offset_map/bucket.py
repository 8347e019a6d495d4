"""What one partition of the map topic says, record by record. No input or output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from drkit.control_key import NO_KEY, REPLAYED, Signatures
from drkit.offset_map.topic import new_nonce
from drkit.offsets import (
    MapKey,
    MapRecord,
    Pack,
    PartitionMap,
    SegmentMap,
    Unavailable,
    decode_record,
    encode_map_record,
)
from drkit.offsets.map_codec import about, mark_key
from drkit.offsets.map_record import MapRecordKind, Reign
from drkit.wire import Record, encode

Pair = tuple[bytes, bytes | None]
"""Key and value of a record of the map topic; without a value it is a tombstone."""
ADOPTED: Final = b"adopted"
"""Key of the record after which all valid records of a bucket are written once more, in their order."""


def adopted_at(offset: int) -> Pair:
    """That record, valid at one offset only: repeated anywhere else it would make the map look empty."""
    return ADOPTED, b"%d" % offset


class UnreadableRecord(NamedTuple):
    """A record in the map topic that does not belong to the map."""

    offset: int
    """Offset in the bucket's partition; −1: unknown."""
    why: str
    lacks_mac: bool = False
    """It has no valid MAC; its kind was not checked."""


@dataclass(slots=True)
class MapBucket:
    """What one partition of the map topic says, read up to `next_offset`."""

    bucket: int
    name: str = ""
    """Of the map topic."""
    next_offset: int = 0
    epoch: int = -1
    """See :class:`drkit.kafka.reading.log_tail.LogTail`."""
    partitions: dict[MapKey, PartitionMap] = field(default_factory=dict)
    keys: dict[MapKey, dict[bytes, None]] = field(default_factory=dict)
    """Keys of the intents, turns and packs that are still valid, per partition: a new pack replaces them."""
    marked: set[MapKey] = field(default_factory=set)
    """Partitions of which a mark was read."""
    legacy: bool = False
    """Records of format 1 were read: the map does not name the writers that may still be active."""
    reign: Reign | None = None
    """The newest reign."""
    unclean: int = 0
    """The newest reign before that one which did not end cleanly; 0: none."""
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    """Records of other writers, or damaged ones; such a record hides no earlier one."""
    refused: int = 0
    """Records without a valid MAC: they were passed over."""
    doubtful: dict[MapKey, dict[bytes, UnreadableRecord]] = field(default_factory=dict)
    """Those of them that have the key of a record of the map, of which nothing else is left to read."""
    signatures: Signatures | None = None
    """Verifies the records of this bucket, or None before the first read."""

    def doubt(self, key: MapKey) -> Unavailable | None:
        """Why the map of a partition cannot be relied on; None when it can."""
        found = next(iter(self.doubtful.get(key, {}).values()), None)
        if found is not None:
            at = f"{self.name}-{self.bucket} at offset {found.offset}"
            if found.lacks_mac:
                return Unavailable(f"a record of the offset map has no valid MAC: {at}, {found.why}")
            return Unavailable(f"a record of the offset map is damaged: {at}, {found.why}")
        state = self.partitions.get(key)
        if state is not None and state.broken:
            return Unavailable(f"the offset map {self.name}-{self.bucket} is incomplete: {state.broken}")
        return None

    def lacks_mac(self, key: MapKey) -> bool:
        """Whether the map of a partition cannot be relied on for want of a MAC."""
        return any(found.lacks_mac for found in self.doubtful.get(key, {}).values())

    def of(self, source_id: UUID, target_id: UUID, partition: int) -> PartitionMap:
        """The state of one copied partition; empty when nothing was written about it."""
        return self.partitions.setdefault(MapKey(source_id, target_id, partition), PartitionMap())

    def forget(self) -> None:
        """Prepare to read the topic from its start; references to a partition's state stay valid."""
        self.next_offset, self.epoch, self.keys, self.marked = 0, -1, {}, set()
        self.reign, self.unclean, self.unreadable, self.doubtful = None, 0, [], {}
        self.legacy, self.refused, self.signatures = False, 0, None
        for state in self.partitions.values():
            state.clear()

    def apply(self, key: bytes | None, value: bytes | None, offset: int = -1) -> None:
        """Take one record of the topic; an unreadable one is kept as such, never guessed at."""
        if key == ADOPTED:
            if (key, value) == adopted_at(offset):
                self._begin_again()
            return
        try:
            found = decode_record(key, value)
        except ValueError as error:
            self._cannot_read(key or b"", UnreadableRecord(offset, str(error)))
            return
        name, where = key or b"", found.where
        self.legacy |= found.legacy
        if where in self.doubtful:
            self.doubtful[where].pop(name, None)
        if isinstance(found.record, Reign):
            self._reign(found.record)
            return
        names = self.keys.setdefault(where, {})
        if found.record is None:
            names.pop(name, None)
            if found.kind is MapRecordKind.MARK:
                self._drop(where)
            return
        if found.kind is MapRecordKind.MARK:
            self.marked.add(where)
        else:
            names[name] = None
        try:
            self.partitions.setdefault(where, PartitionMap()).apply(found.record)
        except OverflowError as error:
            # Well formed, with numbers that no log has: what it was meant to say is unknown.
            self.unreadable.append(UnreadableRecord(offset, f"numbers out of range: {error}"))
            self.doubtful.setdefault(where, {})[name] = self.unreadable[-1]

    def _drop(self, where: MapKey) -> None:
        """Forget a partition: its mark is deleted last, when its copy is gone."""
        self.marked.discard(where)
        for of_partition in (self.partitions, self.keys, self.doubtful):
            of_partition.pop(where, None)

    def tombstones(self, target_ids: Container[UUID]) -> list[Pair]:
        """Return what deletes the map of the copies with these ids, the marks last."""
        found: list[Pair] = []
        for where in [where for where in self.partitions if where.target_id in target_ids]:
            found += [(name, None) for name in self.keys.get(where, {})]
            found.append((mark_key(where), None))
        return found

    def _begin_again(self) -> None:
        """Read twice, a claim would say what another has said since; who reigned, and doubts, stay."""
        self.keys, self.marked = {}, set()
        for state in self.partitions.values():
            state.clear()

    def refuse(self, key: bytes | None, offset: int, why: str) -> None:
        """Pass over a record, or a tombstone, without a valid MAC: the record before it counts.

        Where nothing else is left to read under its key, the partition cannot be relied on.
        """
        self.refused += 1
        if why == REPLAYED:
            return  # the newer record was read
        try:
            where, kind = about(key or b"")
        except ValueError:
            return
        if kind is MapRecordKind.REIGN:
            # Where only this record is left, the map does not name the writers that may still be active.
            self.legacy |= self.reign is None
        elif why == NO_KEY or not self._is_known(key or b"", where, kind):
            self.doubtful.setdefault(where, {})[key or b""] = UnreadableRecord(offset, why, lacks_mac=True)

    def _is_known(self, key: bytes, where: MapKey, kind: MapRecordKind) -> bool:
        return where in self.marked if kind is MapRecordKind.MARK else key in self.keys.get(where, {})

    def _reign(self, reign: Reign) -> None:
        before = self.reign
        if before is not None and not before.ended and before.nonce != reign.nonce:
            self.unclean = max(self.unclean, before.number)
        self.unclean = max(self.unclean, reign.unclean)
        self.reign = reign

    def _cannot_read(self, key: bytes, found: UnreadableRecord) -> None:
        """Note an unreadable record: compaction may have removed older ones of its key, now unknown."""
        self.unreadable.append(found)
        try:
            where, kind = about(key)
        except ValueError:
            return  # under a key of its own it hides nothing
        if not self._is_known(key, where, kind):
            self.doubtful.setdefault(where, {})[key] = found


def pairs(records: Iterable[tuple[MapKey, MapRecord]]) -> list[Pair]:
    """Map records as they are written."""
    return [encode_map_record(key, record) for key, record in records]


def batch_of(
    written: Iterable[Pair], now_ms: int, signatures: Signatures | None = None
) -> tuple[bytearray, int]:
    """Records of the map topic as one record batch with no producer fields yet, and how many they are."""
    found = [
        Record(i, now_ms, key, value, signatures.headers(key, value) if signatures is not None else ())
        for i, (key, value) in enumerate(written)
    ]
    return encode(found, 0), len(found)


_PART_SEGMENTS: Final = 8192
"""Segments in one record of the map topic: less than 200 KB."""


def parts(segments: SegmentMap, until: int) -> Iterator[Pack]:
    """Split the segments of a partition into the parts of one pack."""
    nonce = new_nonce()
    count = max(1, -(-len(segments) // _PART_SEGMENTS))
    for i in range(count):
        piece = segments.part(i * _PART_SEGMENTS, (i + 1) * _PART_SEGMENTS)
        yield Pack(nonce, i, count, until, piece)
