"""The manifest of an export: what was exported, in which files, with which hashes. Pure.

A manifest is a JSON object in one canonical form, whose last line is the SHA-256 of the rest. It holds no
secret, no address and no absolute path: an export may be moved as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
import hashlib
import json
import re
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from pydantic import Field

from drkit.export.record import HoleKind, chain_of_parts
from drkit.flow_state.codec.fields import (
    Count,
    Int32,
    Malformed,
    Many,
    Map,
    Name,
    Omitted,
    Timestamp,
    TopicId,
    TopicName,
    checked,
    text,
    whole,
)
from drkit.flow_state.codec.record import Body

MANIFEST: Final = "manifest.json"
RECORDS: Final = "records"
"""The folder beside the manifest with the files: ``records/<topic>/<partition>/``."""
MOST_BYTES: Final = 1 << 30
"""A longer manifest is not read: one of 100,000 partitions has about 60 MB."""
_VERSION: Final = 1
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_FILE: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z.-]*")
_RUN: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]*")
_NO_FOLDERS: Final = {".", ".."}
_HASH: Final = "sha256"


class TailRange(NamedTuple):
    """Offsets of a partition of the old primary to export, half open."""

    topic: str
    topic_id: UUID
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.first}, {self.end})"


class ExportFormat(StrEnum):
    """The format of the files with records."""

    PARQUET = "parquet"
    JSONL = "jsonl"


def folder_of(topic: str, partition: int) -> str:
    """Return the path of a partition's folder, relative to the manifest's."""
    return f"{RECORDS}/{topic}/{partition}"


def run_name(value: Any) -> str:
    """Return a run's id, which is the name of a folder, too. Raises Malformed."""
    name = text(100)(value)
    if not _RUN.fullmatch(name):
        raise Malformed(
            "letters, digits, dots, dashes and underscores were expected, a letter or digit first"
        )
    return name


def digest(value: Any) -> str:
    """Return a SHA-256 in hexadecimal digits. Raises Malformed."""
    digits = text(64)(value)
    if not _HEX.fullmatch(digits):
        raise Malformed("a SHA-256 in hexadecimal digits was expected")
    return digits


_RunName = Annotated[str, checked(run_name)]
_Digest = Annotated[str, checked(digest)]


@dataclass(frozen=True, slots=True)
class ExportedFile(Body):
    """One file of an export."""

    name: Annotated[str, checked(text(100, least=1))]
    """In the folder of its partition."""
    bytes: Count
    sha256: _Digest


@dataclass(frozen=True, slots=True)
class ExportPart(Body):
    """A range of a partition's offsets, exported by one task: every offset is a record's or in a hole."""

    first: Count
    end: Count
    records: Count
    content_bytes: Count
    """Bytes of keys, values and headers."""
    holes: Map[HoleKind, Annotated[int, whole(1)]]
    """Number of offsets in holes of each kind; the file of holes lists them."""
    first_time: Timestamp | None
    """The least of its records' times, in milliseconds since 1970; None without records."""
    last_time: Timestamp | None
    chain: _Digest
    """See :class:`drkit.export.record.Chain`."""
    records_file: ExportedFile | None
    """None without records."""
    holes_file: ExportedFile | None
    """None without holes."""

    @property
    def files(self) -> tuple[ExportedFile, ...]:
        """Its files."""
        return tuple(f for f in (self.records_file, self.holes_file) if f is not None)


@dataclass(frozen=True, slots=True)
class PartitionExport(Body):
    """A partition's range and its parts, in the order of their offsets."""

    topic: TopicName
    topic_id: TopicId
    partition: Int32
    first: Count
    end: Count
    parts: Many[ExportPart]
    chain: _Digest
    """Over the chains of its parts."""
    term: Omitted[Count] = None
    """Of the failover that left these records out; None: see the manifest, as of an earlier version."""

    @property
    def range(self) -> TailRange:
        """The range that was to be exported."""
        return TailRange(self.topic, self.topic_id, self.partition, self.first, self.end)

    @property
    def folder(self) -> str:
        """The path of its folder, relative to the manifest's."""
        return folder_of(self.topic, self.partition)

    @property
    def records(self) -> int:
        """Exported records."""
        return sum(part.records for part in self.parts)


@dataclass(frozen=True, slots=True)
class Manifest(Body):
    """A whole export."""

    version: Annotated[int, whole(_VERSION, _VERSION), Field(alias="drkit_export")]
    cluster_id: Name
    """Of the cluster that the records are from."""
    flow: Name
    """The flow that had copied from it: ``source->target``."""
    run: _RunName
    term: Count
    """The newest of the partitions' terms; 0 without one. It is that of partitions without their own."""
    format: ExportFormat
    written_at_ms: Count
    partitions: Many[PartitionExport]
    """By topic and partition."""

    @property
    def sha256(self) -> str:
        """The hash of the manifest without the hash itself."""
        return hashlib.sha256(_canonical(self.to_json())).hexdigest()

    @property
    def ranges(self) -> tuple[TailRange, ...]:
        """The ranges that were to be exported."""
        return tuple(each.range for each in self.partitions)

    def files(self, topic: str | None = None) -> Iterator[tuple[str, ExportedFile]]:
        """Return the folder of each file, and the file; of all topics or of one."""
        partitions = (each for each in self.partitions if topic in (None, each.topic))
        return ((each.folder, file) for each in partitions for part in each.parts for file in part.files)

    def term_of(self, each: PartitionExport) -> int:
        """Return the term of the failover that left a partition's records out."""
        return self.term if each.term is None else each.term

    def partition(self, topic: str, number: int) -> PartitionExport | None:
        """Return one partition, or None if it was not exported."""
        return next((p for p in self.partitions if (p.topic, p.partition) == (topic, number)), None)

    def totals(self) -> ExportTotals:
        """Return the sums over all partitions."""
        parts = [part for each in self.partitions for part in each.parts]
        holes = {kind: sum(part.holes.get(kind, 0) for part in parts) for kind in HoleKind}
        return ExportTotals(
            records=sum(part.records for part in parts),
            content_bytes=sum(part.content_bytes for part in parts),
            holes={kind: offsets for kind, offsets in holes.items() if offsets},
            files=sum(len(part.files) for part in parts),
            file_bytes=sum(file.bytes for part in parts for file in part.files),
            first_time=min((p.first_time for p in parts if p.first_time is not None), default=None),
            last_time=max((p.last_time for p in parts if p.last_time is not None), default=None),
        )

    def to_bytes(self) -> bytes:
        """Return the manifest's canonical text."""
        return _canonical({**self.to_json(), _HASH: self.sha256}) + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """Read a manifest. Raises Malformed if :meth:`to_bytes` did not write it, or it is contradictory."""
        if len(data) > MOST_BYTES:
            raise Malformed(f"it has more than {MOST_BYTES} bytes")
        try:
            raw = json.loads(data)
        except (ValueError, RecursionError):
            raise Malformed("no JSON object") from None
        manifest = cls.of(raw)
        if manifest.to_bytes() != data:
            raise Malformed("its text is not what drkit wrote: its hash does not fit it")
        if fault := _fault(manifest):
            raise Malformed(fault)
        return manifest


class ExportTotals(NamedTuple):
    """Sums over an export."""

    records: int
    content_bytes: int
    """Of keys, values and headers."""
    holes: Mapping[HoleKind, int]
    """Offsets by kind."""
    files: int
    file_bytes: int
    first_time: int | None
    """The least time of a record, in milliseconds since 1970; None without records."""
    last_time: int | None


def partition_export(
    wanted: TailRange, parts: Iterable[ExportPart], term: int | None = None
) -> PartitionExport:
    """Return the export of a partition from its parts, with the chain over their chains."""
    ordered = tuple(sorted(parts, key=lambda part: (part.first, part.end)))
    chain = chain_of_parts(
        wanted.topic_id, wanted.partition, wanted.first, wanted.end,
        ((part.first, part.end, part.chain) for part in ordered),
    )  # fmt: skip
    return PartitionExport(**wanted._asdict(), parts=ordered, chain=chain, term=term)


def _fault(manifest: Manifest) -> str:
    """Return a contradiction inside the manifest, or an empty text."""
    keys = [(each.topic, each.partition) for each in manifest.partitions]
    if keys != sorted(set(keys)):
        return "a partition is there twice, or they are not in order"
    faults = ((each, fault) for each in manifest.partitions for fault in _faults(each))
    return next((f"{each.topic}-{each.partition}: {fault}" for each, fault in faults), "")


def _faults(each: PartitionExport) -> Iterator[str]:
    where = f"{each.topic}-{each.partition}"
    if each.topic in _NO_FOLDERS:
        yield f"{where}: no topic has this name"
    position, names = each.first, set()
    for part in each.parts:
        if part.first != position or part.end - part.first != part.records + sum(part.holes.values()):
            yield f"{where}: not every offset from {position} to {part.end} is accounted for"
        there = part.records_file is not None, part.holes_file is not None
        if there != (part.records > 0, len(part.holes) > 0):
            yield f"{where}: the files of offset {part.first} are not those of its records and holes"
        for file in part.files:
            if not _FILE.fullmatch(file.name) or file.name in names:
                yield f"{where}: a file has the name of another one, or none that drkit gives"
            names.add(file.name)
        position = part.end
    if position != each.end:
        yield f"{where}: not every offset from {position} to {each.end} is accounted for"
    if partition_export(each.range, each.parts).chain != each.chain:
        yield f"{where}: its chain is not that of its parts"


def _canonical(raw: Mapping[str, Any]) -> bytes:
    return json.dumps(raw, ensure_ascii=True, indent=1).encode()
