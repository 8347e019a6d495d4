"""An export's tails, partition by partition, and their records as pieces for transactions and as batches."""

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
"""Of the tail, whatever becomes of them."""


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
        """The records, in the order of their offsets. Raises Refused where a file is not what was written."""
        return self.reading(self.source)


class Export(NamedTuple):
    """What a replay needs of an export."""

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
        """The tails of some topics. Raises Refused if a topic has no tail."""
        known = {tail.source.topic for tail in self.tails}
        if unknown := sorted(topics - known):
            raise Refused(
                "export_without_topic",
                where=f"export {self.run_id} of {self.flow}",
                evidence=f"{', '.join(unknown)}; it has {', '.join(sorted(known)) or 'none of any topic'}",
            )
        return self._replace(tails=tuple(t for t in self.tails if t.source.topic in topics))

    def kept(self) -> Export:
        """The same, of tails that the old primary keeps."""
        tails = (t._replace(origin=t.origin._replace(is_kept=True)) for t in self.tails)
        return self._replace(tails=tuple(tails))


def export_at(path: str, sha256: str | None = None) -> Export:
    """The export of a manifest; all files are checked first.

    :param sha256: what the journal says of the manifest; None: unknown here
    :raises Refused: something is not what was written
    :raises Failed: the folder cannot be read
    """
    manifest = check_files(path, sha256)

    def read(at: TopicPartition) -> Iterator[Record]:
        found = exported_records(path, at.topic, at.partition, manifest)
        return (Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found)

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
    """What one transaction does."""

    records: list[Record]
    """To append, with drkit's header; their offsets are those on the old primary."""
    already: int
    kept_back: int
    next: int
    """Offset on the old primary up to which every record is accounted for afterwards."""


def pieces(tail: Tail, flags: bytes, start: int, fate: Callable[[int], TailFate]) -> Iterator[TailPiece]:
    """Yield the rest of a tail from `start` on, by the `fate` of flags; the last piece ends with it."""
    found, size, seen = TailPiece([], 0, 0, start), 0, 0
    for number, record in enumerate(tail.read()):
        if record.offset < start:
            continue
        if seen >= _PIECE_RECORDS or size >= _PIECE_BYTES:
            yield found._replace(next=record.offset)
            found, size, seen = TailPiece([], 0, 0, record.offset), 0, 0
        seen += 1
        match fate(flags[number]):
            case TailFate.SEND:
                stamped = tail.origin.stamped(record)
                found.records.append(stamped)
                size += at_most(stamped)
            case TailFate.ALREADY:
                found = found._replace(already=found.already + 1)
            case TailFate.KEPT_BACK:
                found = found._replace(kept_back=found.kept_back + 1)
    yield found._replace(next=tail.end)


def batches(records: Sequence[Record], limit: int) -> Iterator[tuple[bytearray, int]]:
    """Yield batches of at most `limit` bytes, or of one record, and how many records each has."""
    most = min(limit, _BATCH_BYTES)
    some: list[Record] = []
    size = _HEADER_BYTES
    for record in records:
        adds = at_most(record)
        if some and (size + adds > most or _apart(some[0], record)):
            yield _packed(some), len(some)
            some, size = [], _HEADER_BYTES
        some.append(record)
        size += adds
    if some:
        yield _packed(some), len(some)


def batch_bytes(record: Record, limit: int) -> int:
    """Bytes of a batch with this record alone, as it is sent; at most that if it is below a limit."""
    most = _HEADER_BYTES + at_most(record)
    return most if most <= limit else len(_packed([record]))


def at_most(record: Record) -> int:
    """An upper bound of the bytes of a record in a batch."""
    headers = sum(len(name) + len(value or b"") + _FIELD_BYTES for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _apart(first: Record, other: Record) -> bool:
    return abs(other.timestamp - first.timestamp) >= HALF_RANGE_MS // 2


def _packed(records: Sequence[Record]) -> bytearray:
    """One batch, packed where that makes it smaller."""
    numbered = [record._replace(offset=n) for n, record in enumerate(records)]
    return min(encode(numbered, _LZ4), encode(numbered, _PLAIN), key=len)
