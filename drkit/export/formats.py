"""Records and holes as files: Parquet, or a line of JSON each with the bytes in Base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
import json
from typing import Annotated, Any, BinaryIO, Final, Protocol

from drkit.export.hole import Hole, HoleKind
from drkit.export.manifest import ExportFormat
from drkit.export.record import ExportedRecord, TimestampType
from drkit.export.storage import NewFile
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


class RecordsWriter(Protocol):
    """Writes records into an open file."""

    def add(self, record: ExportedRecord) -> None:
        """Add one record."""

    def close(self) -> None:
        """Write what is still in memory; the file stays open."""


def records_writer(how: ExportFormat, file: NewFile, partition: int) -> RecordsWriter:
    """What writes records of a partition in a format."""
    if how is ExportFormat.JSONL:
        return JsonLinesWriter(file, partition)
    from drkit.export.parquet import ParquetWriter  # noqa: PLC0415  loads pyarrow

    return ParquetWriter(file, partition)


def read_records(how: ExportFormat, file: BinaryIO) -> Iterator[tuple[int, ExportedRecord]]:
    """The partition that a file names with each record, and the record.

    :raises ValueError: the file holds something else
    """
    if how is ExportFormat.JSONL:
        return (_record(line) for line in _limited(file, _LONGEST_LINE))
    from drkit.export.parquet import read_parquet  # noqa: PLC0415  loads pyarrow

    return read_parquet(file)


class JsonLinesWriter:
    """Writes a record as a line of JSON."""

    def __init__(self, file: NewFile, partition: int) -> None:
        self._partition = partition
        self._lines = _Lines(file)

    def add(self, record: ExportedRecord) -> None:
        """Add one record."""
        self._lines.add({
            "partition": self._partition, "offset": record.offset, "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type.name, "key": _text(record.key),
            "value": _text(record.value), "producer_id": record.producer_id,
            "headers": [[_text(name), _text(content)] for name, content in record.headers],
        })  # fmt: skip

    def close(self) -> None:
        """Write the rest."""
        self._lines.close()


class HolesWriter:
    """Writes a hole as a line of JSON."""

    def __init__(self, file: NewFile) -> None:
        self._lines = _Lines(file)

    def add(self, hole: Hole) -> None:
        """Add one hole."""
        self._lines.add({"first": hole.first, "end": hole.end, "kind": hole.kind})

    def close(self) -> None:
        """Write the rest."""
        self._lines.close()


def read_holes(file: BinaryIO) -> Iterator[Hole]:
    """The holes in a file. Raises ValueError for something else."""
    for line in _limited(file, MOST_BYTES):
        found = _HoleLine.decode(line)
        if found.end <= found.first:
            raise Malformed("end: an offset after the first one was expected")
        yield Hole(found.first, found.end, found.kind)


def _limited(file: BinaryIO, most: int) -> Iterator[bytes]:
    """The lines of a file. Raises Malformed for one that drkit would not have written."""
    while line := file.readline(most + 1):
        if len(line) > most:
            raise Malformed(f"a line has more than {most:,} bytes")
        # Each of them is an object in memory, fifty times as large.
        if line.count(b",") > _MOST_COMMAS:
            raise Malformed(f"a line has more than {_MOST_COMMAS:,} values")
        yield line


class _Lines:
    """Lines of JSON, written some at a time."""

    _MOST: Final = 1 << 20

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._waiting = bytearray()

    def add(self, line: dict[str, Any]) -> None:
        self._waiting += json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if len(self._waiting) >= self._MOST:
            self.close()

    def close(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._file.write(bytes(waiting))


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _record(line: bytes) -> tuple[int, ExportedRecord]:
    found = _RecordLine.of(parsed(line, _LONGEST_LINE))
    record = ExportedRecord(
        offset=found.offset,
        timestamp=found.timestamp,
        timestamp_type=found.timestamp_type,
        key=found.key,
        value=found.value,
        headers=found.headers,
        producer_id=found.producer_id,
    )
    return found.partition, record


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
