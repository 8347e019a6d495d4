"""The manifest of an export: what was exported, in which files, with which hashes. Pure.

A manifest is a JSON object in one canonical form, whose last line is the SHA-256 of the rest. It holds no
secret, no address and no absolute path: an export may be moved as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
import hashlib
import json
import re
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit.export.hole import HoleKind
from drkit.flow_state.codec.body import Body, record, stored
from drkit.flow_state.codec.fields import (
    LONG,
    Malformed,
    mapping_of,
    member,
    name,
    optional,
    text,
    topic_name,
    tuple_of,
    uuid,
    whole,
)

MANIFEST: Final = "manifest.json"
RECORDS: Final = "records"
"""The folder beside the manifest with the files: ``records/<topic>/<partition>/``."""
MOST_BYTES: Final = 1 << 30
"""A longer manifest is not read: one of 100,000 partitions has about 60 MB."""
_VERSION: Final = 1
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_FILE: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z.-]*")
_TIME: Final = whole(-LONG - 1)


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
    """How the records are written."""

    PARQUET = "parquet"
    JSONL = "jsonl"


def digest(value: Any) -> str:
    """A SHA-256 in hexadecimal digits. Raises Malformed."""
    found = text(64)(value)
    if not _HEX.fullmatch(found):
        raise Malformed("a SHA-256 in hexadecimal digits was expected")
    return found


@record
class ExportedFile(Body):
    """One file of an export."""

    name: str = stored(text(100, least=1))
    """In the folder of its partition."""
    bytes: int = stored(whole())
    sha256: str = stored(digest)


@record
class ExportPart(Body):
    """A range of a partition's offsets, exported by one task: every offset is a record's or in a hole."""

    first: int = stored(whole())
    end: int = stored(whole())
    records: int = stored(whole())
    content_bytes: int = stored(whole())
    """Bytes of keys, values and headers."""
    holes: Mapping[HoleKind, int] = stored(mapping_of(member(HoleKind), whole(1)))
    """Offsets in holes of each kind; which ones, the file of holes says."""
    first_time: int | None = stored(optional(_TIME))
    """The least of its records' times, in milliseconds since 1970; None without records."""
    last_time: int | None = stored(optional(_TIME))
    chain: str = stored(digest)
    """See :class:`drkit.export.record.Chain`."""
    records_file: ExportedFile | None = stored(optional(ExportedFile.of))
    """None without records."""
    holes_file: ExportedFile | None = stored(optional(ExportedFile.of))
    """None without holes."""

    @property
    def files(self) -> tuple[ExportedFile, ...]:
        """Its files."""
        return tuple(f for f in (self.records_file, self.holes_file) if f is not None)


@record
class PartitionExport(Body):
    """A partition's range and its parts, in the order of their offsets."""

    topic: str = stored(topic_name)
    topic_id: UUID = stored(uuid)
    partition: int = stored(whole(0, 2**31 - 1))
    first: int = stored(whole())
    end: int = stored(whole())
    parts: tuple[ExportPart, ...] = stored(tuple_of(ExportPart.of))
    chain: str = stored(digest)
    """Over the chains of its parts."""

    @property
    def range(self) -> TailRange:
        """What was to be exported."""
        return TailRange(self.topic, self.topic_id, self.partition, self.first, self.end)

    @property
    def folder(self) -> str:
        """Where its files are, from the manifest's folder on."""
        return f"{RECORDS}/{self.topic}/{self.partition}"

    @property
    def records(self) -> int:
        """Exported records."""
        return sum(part.records for part in self.parts)


@record
class Manifest(Body):
    """A whole export."""

    version: int = stored(whole(_VERSION, _VERSION), key="drkit_export")
    cluster_id: str = stored(name)
    """Of the cluster that the records are from."""
    flow: str = stored(name)
    """The flow that had copied from it: ``source->target``."""
    run: str = stored(name)
    term: int = stored(whole())
    """Of the newest failover of the flow; 0 without one."""
    format: ExportFormat = stored(member(ExportFormat))
    written_at_ms: int = stored(whole())
    partitions: tuple[PartitionExport, ...] = stored(tuple_of(PartitionExport.of))
    """By topic and partition."""

    @property
    def sha256(self) -> str:
        """The hash of the whole manifest but for the hash itself."""
        return hashlib.sha256(_canonical(self.to_json())).hexdigest()

    def __str__(self) -> str:
        return f"export {self.run} of {self.flow}"


def _canonical(raw: Mapping[str, Any]) -> bytes:
    return json.dumps(raw, ensure_ascii=True, indent=1).encode()
