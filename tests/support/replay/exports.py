"""Exports made without Spark: the same files and the same manifest, of records that a test makes up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from drkit.export.manifest import MANIFEST, ExportFormat, Manifest, TailRange, partition_export
from drkit.export.parts import write_parts
from drkit.export.places import storage_at
from drkit.export.record import ExportedRecord, Hole, HoleKind, Item, TimestampType
from drkit.wire import Record

PART_BYTES = 4_000


class Origins(NamedTuple):
    """Where the records of an export are said to be from."""

    cluster_id: str
    flow: str
    term: int = 1


def write_export(
    folder: Path,
    run: str,
    of: Origins,
    tails: Mapping[TailRange, Sequence[Record]],
    how: ExportFormat = ExportFormat.JSONL,
) -> str:
    """Write an export, several parts for each partition; returns the path of its manifest."""
    place = folder / run
    storage = storage_at(str(place))
    storage.make()
    found = [
        partition_export(wanted, write_parts(storage, how, wanted, _items(wanted, records), PART_BYTES))
        for wanted, records in sorted(tails.items())
    ]
    manifest = Manifest(
        version=1, cluster_id=of.cluster_id, flow=of.flow, run=run, term=of.term, format=how,
        written_at_ms=1_700_000_000_000, partitions=tuple(found),
    )  # fmt: skip
    path = place / MANIFEST
    path.write_bytes(manifest.to_bytes())
    return str(path)


def _items(wanted: TailRange, records: Sequence[Record]) -> Iterator[Item]:
    """The records; offsets between them are markers."""
    position = wanted.first
    for r in records:
        if r.offset > position:
            yield Hole(position, r.offset, HoleKind.MARKER)
        yield ExportedRecord(r.offset, r.timestamp, TimestampType.CREATE_TIME, r.key, r.value, r.headers, -1)
        position = r.offset + 1
    if position < wanted.end:
        yield Hole(position, wanted.end, HoleKind.MARKER)
