"""State of one partition of the map topic, built record by record. No I/O."""

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
from drkit.offsets.resolution import Foreign, Resolution
from drkit.wire import Record, encode

Pair = tuple[bytes, bytes | None]
"""Key and value of a record of the map topic; without a value it is a tombstone."""
ADOPTED: Final = b"adopted"
"""Key of the record after which all valid records of a bucket are rewritten in their order."""


def adopted_at(offset: int) -> Pair:
    """Return that record, valid at one offset only: a replay elsewhere would make the map look empty."""
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
    """The state of one partition of the map topic, read up to `next_offset`."""

    bucket: int
    name: str = ""
    """Of the map topic."""
    next_offset: int = 0
    epoch: int = -1
    """See :class:`drkit.kafka.reading.log_tail.LogTail`."""
    is_partial: bool = False
    """It was read only up to an open transaction."""
    partitions: dict[MapKey, PartitionMap] = field(default_factory=dict)
    keys: dict[MapKey, dict[bytes, None]] = field(default_factory=dict)
    """Keys of the valid intents, turns and packs, per partition; a new pack replaces them."""
    marked: set[MapKey] = field(default_factory=set)
    """Partitions for which a mark was read."""
    legacy: bool = False
    """Records of format 1 were read: writers that may still be active are not in the map."""
    reign: Reign | None = None
    """The newest reign."""
    unclean: int = 0
    """The newest earlier reign that did not end cleanly, or 0."""
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    """Records of other writers, or damaged ones; earlier records of their keys stay valid."""
    refused: int = 0
    """Number of records skipped without a valid MAC."""
    doubtful: dict[MapKey, dict[bytes, UnreadableRecord]] = field(default_factory=dict)
    """Refused records with the key of a map record, if no valid record of that key is left."""
    passed_over: UnreadableRecord | None = None
    """The first batch that was not read: compaction may have kept it instead of records of any key."""
    signatures: Signatures | None = None
    """Verifies the records of this bucket, or None before the first read."""

    def doubt(self, key: MapKey, resolution: Resolution | None = None) -> Unavailable | None:
        """Return why the map of a partition is not reliable, or None if it is.

        :param resolution: of a log that was read before the map; no transaction of `unmapped` is open
        """
        where, state = f"{self.name}-{self.bucket}", self.partitions.get(key)
        record = next(iter(self.doubtful.get(key, {}).values()), self.passed_over)
        if record is not None:
            fault = "has no valid MAC" if record.lacks_mac else "is damaged"
            where += f" at offset {record.offset}"
            return Unavailable(f"a record of the offset map {fault}: {where}, {record.why}")
        if state is not None and state.broken:
            return Unavailable(f"the offset map {where} is incomplete: {state.broken}")
        # A map record is durable before the batches that it describes, or in their transaction.
        for batch in resolution.unmapped if resolution is not None and not self.is_partial else ():
            if not self._is_of_earlier_topic(key, batch):
                copied = f"no record describes offset {batch.base} of producer id {batch.producer_id}"
                return Unavailable(f"the offset map {where} has lost records of this partition: {copied}")
        return None

    def _is_of_earlier_topic(self, key: MapKey, batch: Foreign) -> bool:
        """Return whether a batch was copied from an earlier source topic, as the map has it."""
        return any(
            state.history == (batch.producer_id, batch.epoch)
            or (state.tail is not None and batch.base < state.tail.downstream)
            for other, state in self.partitions.items()
            if (other.target_id, other.partition) == (key.target_id, key.partition) and other != key
        )

    def lacks_mac(self, key: MapKey) -> bool:
        """Return whether the map of a partition is not reliable because of a missing MAC."""
        return bool(self.passed_over) or any(r.lacks_mac for r in self.doubtful.get(key, {}).values())

    def of(self, source_id: UUID, target_id: UUID, partition: int) -> PartitionMap:
        """The state of one copied partition; empty when nothing was written about it."""
        return self.partitions.setdefault(MapKey(source_id, target_id, partition), PartitionMap())

    def forget(self) -> None:
        """Prepare to read the topic from its start; references to a partition's state stay valid."""
        self.next_offset, self.epoch, self.keys, self.marked = 0, -1, {}, set()
        self.reign, self.unclean, self.unreadable, self.doubtful = None, 0, [], {}
        self.passed_over = None
        self.legacy, self.refused, self.signatures = False, 0, None
        for state in self.partitions.values():
            state.clear()

    def apply(self, key: bytes | None, value: bytes | None, offset: int = -1) -> None:
        """Apply one record of the topic; an unreadable one is noted as such."""
        if key == ADOPTED:
            if (key, value) == adopted_at(offset):
                self._clear_before_adoption()
            return
        try:
            decoded = decode_record(key, value)
        except ValueError as error:
            self._note_unreadable(key or b"", UnreadableRecord(offset, str(error)))
            return
        raw_key, map_key = key or b"", decoded.where
        self.legacy |= decoded.legacy
        if map_key in self.doubtful:
            self.doubtful[map_key].pop(raw_key, None)
        if isinstance(decoded.record, Reign):
            self._apply_reign(decoded.record)
            return
        valid_keys = self.keys.setdefault(map_key, {})
        if decoded.record is None:
            valid_keys.pop(raw_key, None)
            if decoded.kind is MapRecordKind.MARK:
                self._forget_partition(map_key)
            return
        if decoded.kind is MapRecordKind.MARK:
            self.marked.add(map_key)
        else:
            valid_keys[raw_key] = None
        try:
            self.partitions.setdefault(map_key, PartitionMap()).apply(decoded.record)
        except OverflowError as error:
            # Well formed, but with impossible offsets: its meaning is unknown.
            self.unreadable.append(UnreadableRecord(offset, f"numbers out of range: {error}"))
            self.doubtful.setdefault(map_key, {})[raw_key] = self.unreadable[-1]

    def _forget_partition(self, where: MapKey) -> None:
        self.marked.discard(where)
        for of_partition in (self.partitions, self.keys, self.doubtful):
            of_partition.pop(where, None)

    def tombstones(self, target_ids: Container[UUID]) -> list[Pair]:
        """Return the tombstones for the map of these copies, the marks last."""
        tombstones: list[Pair] = []
        for map_key in [map_key for map_key in self.partitions if map_key.target_id in target_ids]:
            tombstones += [(name, None) for name in self.keys.get(map_key, {})]
            tombstones.append((mark_key(map_key), None))
        return tombstones

    def _clear_before_adoption(self) -> None:
        """Clear the map before its rewritten records; reigns and doubts stay."""
        self.keys, self.marked = {}, set()
        for state in self.partitions.values():
            state.clear()

    def pass_over(self, offset: int, why: str) -> None:
        """Note a batch that was not read: no partition's map is reliable."""
        self.passed_over = self.passed_over or UnreadableRecord(offset, why)
        self.legacy = True  # it may hide a reign

    def refuse(self, key: bytes | None, offset: int, why: str) -> None:
        """Skip a record, or a tombstone, without a valid MAC: the earlier record of its key counts.

        If there is no earlier record, the partition's map is not reliable.
        """
        self.refused += 1
        if why == REPLAYED:
            return  # the newer record was read
        try:
            where, kind = about(key or b"")
        except ValueError:
            return
        if kind is MapRecordKind.REIGN:
            # With no other record left, writers that may still be active are not in the map.
            self.legacy |= self.reign is None
        elif why == NO_KEY or not self._is_known(key or b"", where, kind):
            self.doubtful.setdefault(where, {})[key or b""] = UnreadableRecord(offset, why, lacks_mac=True)

    def _is_known(self, key: bytes, where: MapKey, kind: MapRecordKind) -> bool:
        return where in self.marked if kind is MapRecordKind.MARK else key in self.keys.get(where, {})

    def _apply_reign(self, reign: Reign) -> None:
        previous = self.reign
        if previous is not None and not previous.ended and previous.nonce != reign.nonce:
            self.unclean = max(self.unclean, previous.number)
        self.unclean = max(self.unclean, reign.unclean)
        self.reign = reign

    def _note_unreadable(self, key: bytes, unreadable: UnreadableRecord) -> None:
        """Note an unreadable record: compaction may have removed older ones of its key, now unknown."""
        self.unreadable.append(unreadable)
        try:
            map_key, kind = about(key)
        except ValueError:
            return  # it is not the key of a map record
        if not self._is_known(key, map_key, kind):
            self.doubtful.setdefault(map_key, {})[key] = unreadable


def pairs(records: Iterable[tuple[MapKey, MapRecord]]) -> list[Pair]:
    """Return the encoded map records."""
    return [encode_map_record(key, record) for key, record in records]


def batch_of(
    written: Iterable[Pair], now_ms: int, signatures: Signatures | None = None
) -> tuple[bytearray, int]:
    """Return map records as one record batch, without producer fields yet, and their number."""
    records = [
        Record(i, now_ms, key, value, signatures.headers(key, value) if signatures is not None else ())
        for i, (key, value) in enumerate(written)
    ]
    return encode(records, 0), len(records)


_PART_SEGMENTS: Final = 8192
"""Segments in one record of the map topic: less than 200 KB."""


def parts(segments: SegmentMap, until: int) -> Iterator[Pack]:
    """Split the segments of a partition into the parts of one pack."""
    nonce = new_nonce()
    count = max(1, -(-len(segments) // _PART_SEGMENTS))
    for i in range(count):
        piece = segments.part(i * _PART_SEGMENTS, (i + 1) * _PART_SEGMENTS)
        yield Pack(nonce, i, count, until, piece)
