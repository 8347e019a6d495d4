"""Writes the parts of a range of offsets, and reads a part back: both must see the same content.

A part is a file of records and a file of holes; it ends when its records have a certain size. Neither is
ever in memory as a whole. Records are in Parquet, or in lines of JSON with the bytes in Base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
import binascii
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
import hashlib
import json
from typing import Annotated, Any, BinaryIO, Final, Protocol
from uuid import uuid4

from drkit.export.manifest import ExportedFile, ExportFormat, ExportPart, TailRange, folder_of
from drkit.export.record import Chain, ExportedRecord, Hole, HoleKind, Item, TimestampType
from drkit.export.storage import NewFile, Storage
from drkit.flow_state.codec.fields import (
    LONG,
    MOST_BYTES,
    Count,
    Int32,
    Malformed,
    Many,
    Timestamp,
    checked,
    listed,
    text,
)
from drkit.flow_state.codec.record import Body, parsed
from drkit.wire.codecs import MAX_DECOMPRESSED

_LONGEST_LINE: Final = MAX_DECOMPRESSED * 4 // 3 + (1 << 20)
"""Of the largest record, in Base64."""
_MOST_COMMAS: Final = 3 << 20
"""Two for each header: a megabyte has at most half a million headers."""
PART_BYTES: Final = 256 << 20
"""Bytes of keys, values and headers after which the next part begins."""
_HASHED_AT_ONCE: Final = 1 << 20


class RecordsWriter(Protocol):
    """Writes records into an open file."""

    def add(self, record: ExportedRecord) -> None:
        """Add one record."""

    def close(self) -> None:
        """Write what is still in memory; the file stays open."""


def records_writer(how: ExportFormat, file: NewFile, partition: int) -> RecordsWriter:
    """Return a writer for the records of a partition in a format."""
    if how is ExportFormat.JSONL:
        return _JsonLines(file, partial(_record_row, partition))
    from drkit.export.parquet import ParquetWriter  # noqa: PLC0415  loads pyarrow

    return ParquetWriter(file, partition)


def read_records(how: ExportFormat, file: BinaryIO) -> Iterator[tuple[int, ExportedRecord]]:
    """Yield the partition and content of each record. Raises ValueError if the file holds something else."""
    if how is ExportFormat.JSONL:
        return (_record(line) for line in _limited(file, _LONGEST_LINE))
    from drkit.export.parquet import read_parquet  # noqa: PLC0415  loads pyarrow

    return read_parquet(file)


class _JsonLines:
    """Lines of JSON, written some at a time."""

    _MOST: Final = 1 << 20

    def __init__(self, file: NewFile, row: Callable[[Any], dict[str, Any]]) -> None:
        self._file, self._row = file, row
        self._waiting = bytearray()

    def add(self, item: Item) -> None:
        self._waiting += json.dumps(self._row(item), separators=(",", ":")).encode() + b"\n"
        if len(self._waiting) >= self._MOST:
            self.close()

    def close(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._file.write(bytes(waiting))


def _record_row(partition: int, record: ExportedRecord) -> dict[str, Any]:
    return {
        "partition": partition, "offset": record.offset, "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type.name, "key": _text(record.key),
        "value": _text(record.value), "producer_id": record.producer_id,
        "headers": [[_text(name), _text(content)] for name, content in record.headers],
    }  # fmt: skip


def read_holes(file: BinaryIO) -> Iterator[Hole]:
    """Yield the holes in a file. Raises ValueError if the file holds something else."""
    for line in _limited(file, MOST_BYTES):
        hole = _HoleLine.decode(line)
        if hole.end <= hole.first:
            raise Malformed("end: an offset after the first one was expected")
        yield Hole(hole.first, hole.end, hole.kind)


def _limited(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the lines of a file. Raises Malformed if one is longer, or has more values, than drkit writes."""
    while line := file.readline(most + 1):
        if len(line) > most:
            raise Malformed(f"a line has more than {most:,} bytes")
        # Each of them is an object in memory, fifty times as large.
        if line.count(b",") > _MOST_COMMAS:
            raise Malformed(f"a line has more than {_MOST_COMMAS:,} values")
        yield line


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _record(line: bytes) -> tuple[int, ExportedRecord]:
    row = _RecordLine.of(parsed(line, _LONGEST_LINE))
    return row.partition, ExportedRecord(*(getattr(row, name) for name in ExportedRecord._fields))


def _bytes(value: Any) -> bytes:
    try:
        return b64decode(_any_text(value), validate=True)
    except binascii.Error:
        raise Malformed("Base64 was expected") from None


def _time_type(value: Any) -> TimestampType:
    try:
        return TimestampType[text(32)(value)]
    except KeyError:
        raise Malformed(f"one of {', '.join(t.name for t in TimestampType)} was expected") from None


_any_text: Final = text(LONG)
_Bytes = Annotated[bytes, checked(_bytes)]


@dataclass(frozen=True, slots=True)
class _RecordLine(Body):
    partition: Int32
    offset: Count
    timestamp: Timestamp
    timestamp_type: Annotated[TimestampType, checked(_time_type)]
    key: _Bytes | None
    value: _Bytes | None
    headers: Many[Annotated[tuple[_Bytes, _Bytes | None], listed(2)]]
    producer_id: Timestamp


@dataclass(frozen=True, slots=True)
class _HoleLine(Body):
    first: Count
    end: Count
    kind: HoleKind


class Altered(ValueError):
    """A part was altered; the text names the file or offset."""


class _Sink:
    """A new file, with the hash and size of its content; pyarrow calls `flush`, `tell` and `closed`."""

    def __init__(self, storage: Storage, folder: str, name: str) -> None:
        self.name = name
        self._file = storage.create(f"{folder}/{name}")
        self._hash, self._size = hashlib.sha256(), 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        pass

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        self._file.close()

    def described(self) -> ExportedFile:
        return ExportedFile(self.name, self._size, self._hash.hexdigest())


class _PartWriter:
    """Writes one part, whose end is known when it is closed."""

    def __init__(self, storage: Storage, how: ExportFormat, wanted: TailRange, first: int) -> None:
        self._storage, self._how, self._wanted, self._first = storage, how, wanted, first
        self._folder = folder_of(wanted.topic, wanted.partition)
        # A second attempt of the same task, beside a first one that still runs, has other files.
        self._name = f"{first:020d}-{uuid4().hex[:12]}"
        self._records: tuple[_Sink, RecordsWriter] | None = None
        self._holes: tuple[_Sink, _JsonLines] | None = None
        self._chain = Chain()
        self._hole: Hole | None = None
        self._kinds: dict[HoleKind, int] = {}
        self._count = self.size = 0
        self._times: tuple[int, int] | None = None

    def add(self, item: Item) -> None:
        """Add the next record or hole; adjoining holes of one kind become one."""
        if isinstance(item, Hole):
            if self._hole is not None and self._hole.kind is item.kind:
                self._hole = self._hole._replace(end=item.end)
                return
            self._end_hole()
            self._hole = item
            return
        self._end_hole()
        if self._records is None:
            sink = _Sink(self._storage, self._folder, f"{self._name}.{self._how}")
            self._records = sink, records_writer(self._how, sink, self._wanted.partition)
        self._records[1].add(item)
        self._chain.record(item)
        least, most = self._times or (item.timestamp, item.timestamp)
        self._times = min(least, item.timestamp), max(most, item.timestamp)
        self._count, self.size = self._count + 1, self.size + item.size

    def _end_hole(self) -> None:
        hole, self._hole = self._hole, None
        if hole is None:
            return
        if self._holes is None:
            sink = _Sink(self._storage, self._folder, f"{self._name}.holes.jsonl")
            self._holes = sink, _JsonLines(sink, Hole._asdict)
        self._holes[1].add(hole)
        self._chain.hole(hole)
        self._kinds[hole.kind] = self._kinds.get(hole.kind, 0) + hole.offsets

    def close(self, end: int) -> ExportPart:
        self._end_hole()
        for sink_and_writer in (self._records, self._holes):
            if sink_and_writer is not None:
                sink, writer = sink_and_writer
                writer.close()
                sink.close()
        least, most = self._times or (None, None)
        return ExportPart(
            first=self._first,
            end=end,
            records=self._count,
            content_bytes=self.size,
            holes={kind: self._kinds[kind] for kind in sorted(self._kinds)},
            first_time=least,
            last_time=most,
            chain=self._chain.result(self._wanted.topic_id, self._wanted.partition, self._first, end),
            records_file=None if self._records is None else self._records[0].described(),
            holes_file=None if self._holes is None else self._holes[0].described(),
        )

    def abandon(self) -> None:
        for sink_and_writer in (self._records, self._holes):
            if sink_and_writer is not None:
                with suppress(OSError):
                    sink_and_writer[0].close()


def write_parts(
    storage: Storage, how: ExportFormat, wanted: TailRange, items: Iterable[Item], most: int = PART_BYTES
) -> list[ExportPart]:
    """Write a range whose items account for every offset. Raises OSError.

    :param most: bytes of a part's keys, values and headers after which the next part begins
    """
    parts: list[ExportPart] = []
    part = _PartWriter(storage, how, wanted, wanted.first)
    position = wanted.first
    try:
        for item in items:
            first, position = (
                (item.first, item.end) if isinstance(item, Hole) else (item.offset, item.offset + 1)
            )
            if part.size >= most:
                parts.append(part.close(first))
                part = _PartWriter(storage, how, wanted, first)
            part.add(item)
        parts.append(part.close(position))
    finally:
        part.abandon()
    return parts


def file_hash(file: BinaryIO) -> tuple[int, str]:
    """Return the size and SHA-256 of the rest of a file."""
    digest, size = hashlib.sha256(), 0
    while data := file.read(_HASHED_AT_ONCE):
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()


def check_file(storage: Storage, path: str, expected: ExportedFile) -> None:
    """Compare a file's size and hash with the manifest. Raises Altered if they differ, or it is missing."""
    try:
        with storage.open(path) as file:
            size, digest = file_hash(file)
    except FileNotFoundError:
        raise Altered(f"{path} is missing") from None
    if size != expected.bytes:
        raise Altered(f"{path} has {size} bytes, {expected.bytes} were written")
    if digest != expected.sha256:
        raise Altered(f"{path} has another content than the one that was written: SHA-256 {digest}")


def read_part(storage: Storage, how: ExportFormat, of: TailRange, part: ExportPart) -> Iterator[Item]:
    """Yield the records and holes of a part in the order of their offsets, and compare them with the part.

    Each file is hashed before its first item is returned, and the chain is compared after the last.

    :param of: the partition
    :raises Altered: the part was altered; names the file or the offset
    :raises OSError: it cannot be read
    """
    folder = folder_of(of.topic, of.partition)
    for file in part.files:
        check_file(storage, f"{folder}/{file.name}", file)
    with ExitStack() as stack:
        opened = [
            None if file is None else stack.enter_context(storage.open(f"{folder}/{file.name}"))
            for file in (part.records_file, part.holes_file)
        ]
        records = iter(()) if opened[0] is None else read_records(how, opened[0])
        holes = iter(()) if opened[1] is None else read_holes(opened[1])
        try:
            yield from _compared(of, part, records, holes)
        except Altered:
            raise
        except ValueError as error:
            raise Altered(f"{_name(of)} from offset {part.first} on cannot be read: {error}") from error


def _compared(
    of: TailRange, part: ExportPart, records: Iterator[tuple[int, ExportedRecord]], holes: Iterator[Hole]
) -> Iterator[Item]:
    chain, position, count = Chain(), part.first, 0
    kinds: dict[HoleKind, int] = {}
    record, hole = next(records, None), next(holes, None)
    while record is not None or hole is not None:
        if hole is not None and (record is None or hole.first <= record[1].offset):
            _in_place(of, position, hole.first)
            chain.hole(hole)
            kinds[hole.kind] = kinds.get(hole.kind, 0) + hole.offsets
            position = hole.end
            yield hole
            hole = next(holes, None)
        elif record is not None:
            _in_place(of, position, record[1].offset)
            if record[0] != of.partition:
                raise Altered(f"{_name(of)}: offset {position} is of partition {record[0]}")
            chain.record(record[1])
            position, count = position + 1, count + 1
            yield record[1]
            record = next(records, None)
    _in_place(of, position, part.end)
    if count != part.records or kinds != part.holes:
        raise Altered(f"{_name(of)}: {count} records from offset {part.first} on, not {part.records}")
    if (result := chain.result(of.topic_id, of.partition, part.first, part.end)) != part.chain:
        raise Altered(
            f"{_name(of)}: offsets {part.first} to {part.end - 1} do not hold what was read from the log:"
            f" their chain is {result}"
        )


def _in_place(of: TailRange, expected: int, offset: int) -> None:
    if offset != expected:
        fault = "is missing" if offset > expected else "is there twice or out of order"
        raise Altered(f"{_name(of)}: offset {min(offset, expected)} {fault}")


def _name(of: TailRange) -> str:
    return f"{of.topic}-{of.partition}"
