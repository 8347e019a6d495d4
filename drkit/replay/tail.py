"""Reads an export's tails by partition, and cuts records into pieces for transactions and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from drkit.errors import Refused
from drkit.export.check import check_files, exported_records
from drkit.export.manifest import Manifest
from drkit.model import TopicPartition
from drkit.replay.compare import Origin, TailFate
from drkit.wire import Record, encode
from drkit.wire.records import HALF_RANGE_MS

Read = Callable[[TopicPartition], Iterator[Record]]
"""The records of a partition of the old primary, in the order of their offsets."""
_LZ4: Final = 3
_PLAIN: Final = 0
_HEADER_BYTES: Final = 61
_RECORD_BYTES: Final = 40
"""At most, beside key, value and headers: five numbers, and the lengths of key and value."""
_FIELD_BYTES: Final = 10
"""At most: the lengths of a header's name and value."""
_BATCH_BYTES: Final = 512 << 10
_PIECE_BYTES: Final = 4 << 20
_PIECE_RECORDS: Final = 20_000
"""Records of the tail, appended or not."""


class Tail(NamedTuple):
    """The exported records of a partition of the old primary."""

    origin: Origin
    topic_id: UUID
    """On the old primary."""
    first: int
    end: int
    """Offsets on the old primary, half open."""
    records: int
    reading: Read
    term: int
    """Of the failover that left the records out."""

    @property
    def source(self) -> TopicPartition:
        """The partition on the old primary."""
        return self.origin.at

    def read(self) -> Iterator[Record]:
        """Return the records in the order of their offsets. Raises Refused if a file was altered."""
        return self.reading(self.source)


class Export(NamedTuple):
    """The part of an export that a replay needs."""

    run_id: str
    sha256: str
    """Of the manifest."""
    cluster_id: str
    """Of the old primary."""
    flow: str
    """``source->target``."""
    tails: tuple[Tail, ...]
    """Of partitions with records, by topic and partition."""

    def of_topics(self, topics: frozenset[str]) -> Export:
        """Return the export with the tails of some topics only. Raises Refused if a topic has no tail."""
        known = {tail.source.topic for tail in self.tails}
        if unknown := sorted(topics - known):
            raise Refused(
                "export_without_topic",
                where=f"export {self.run_id} of {self.flow}",
                evidence=f"{', '.join(unknown)}; it has {', '.join(sorted(known)) or 'none of any topic'}",
            )
        return self._replace(tails=tuple(t for t in self.tails if t.source.topic in topics))

    def kept(self) -> Export:
        """Return the export with tails that the old primary keeps."""
        tails = (t._replace(origin=t.origin._replace(is_kept=True)) for t in self.tails)
        return self._replace(tails=tuple(tails))


def export_at(path: str, sha256: str | None = None) -> Export:
    """Return the export of a manifest; all files are checked first.

    :param sha256: the manifest's hash in the journal, or None if it is unknown here
    :raises Refused: a file was altered
    :raises Failed: the folder cannot be read
    """
    manifest = check_files(path, sha256)

    def read(at: TopicPartition) -> Iterator[Record]:
        records = exported_records(path, at.topic, at.partition, manifest)
        return (Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records)

    return Export(
        manifest.run, manifest.sha256, manifest.cluster_id, manifest.flow,
        tuple(_tails(manifest, read)),
    )  # fmt: skip


def _tails(manifest: Manifest, read: Read) -> Iterator[Tail]:
    for p in manifest.partitions:
        if p.records:
            origin = Origin(manifest.cluster_id, TopicPartition(p.topic, p.partition), manifest.run)
            yield Tail(origin, p.topic_id, p.first, p.end, p.records, reading=read, term=manifest.term_of(p))


class TailPiece(NamedTuple):
    """The records of one transaction, and those that it passes over."""

    records: list[Record]
    """To append, with drkit's header; their offsets are those on the old primary."""
    already: int
    kept_back: int
    next: int
    """Offset on the old primary up to which every record is accounted for afterwards."""


def pieces(tail: Tail, flags: bytes, start: int, fate: Callable[[int], TailFate]) -> Iterator[TailPiece]:
    """Yield the rest of a tail from offset `start` on, by the `fate` of flags; the last piece ends it."""
    piece, size, records = TailPiece([], 0, 0, start), 0, 0
    for number, record in enumerate(tail.read()):
        if record.offset < start:
            continue
        if records >= _PIECE_RECORDS or size >= _PIECE_BYTES:
            yield piece._replace(next=record.offset)
            piece, size, records = TailPiece([], 0, 0, record.offset), 0, 0
        records += 1
        match fate(flags[number]):
            case TailFate.SEND:
                stamped = tail.origin.stamped(record)
                piece.records.append(stamped)
                size += at_most(stamped)
            case TailFate.ALREADY:
                piece = piece._replace(already=piece.already + 1)
            case TailFate.KEPT_BACK:
                piece = piece._replace(kept_back=piece.kept_back + 1)
    yield piece._replace(next=tail.end)


def batches(records: Sequence[Record], limit: int) -> Iterator[tuple[bytearray, int]]:
    """Yield batches without producer fields, of at most `limit` bytes or one record, and their lengths."""
    most = min(limit, _BATCH_BYTES)
    batch: list[Record] = []
    size = _HEADER_BYTES
    for record in records:
        adds = at_most(record)
        # The times in a batch must not be too far apart.
        is_late = bool(batch) and abs(record.timestamp - batch[0].timestamp) >= HALF_RANGE_MS // 2
        if batch and (is_late or size + adds > most):
            yield _packed(batch), len(batch)
            batch, size = [], _HEADER_BYTES
        batch.append(record)
        size += adds
    if batch:
        yield _packed(batch), len(batch)


def batch_bytes(record: Record, limit: int) -> int:
    """Return the bytes of a batch with this record alone, or an upper bound within the limit."""
    most = _HEADER_BYTES + at_most(record)
    return most if most <= limit else len(_packed([record]))


def at_most(record: Record) -> int:
    """Return an upper bound of the bytes of a record in a batch."""
    headers = sum(len(name) + len(value or b"") + _FIELD_BYTES for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _packed(records: Sequence[Record]) -> bytearray:
    numbered = [record._replace(offset=n) for n, record in enumerate(records)]
    return min(encode(numbered, _LZ4), encode(numbered, _PLAIN), key=len)
