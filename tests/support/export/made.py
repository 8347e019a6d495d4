"""Exports made without a cluster and without Spark: any records and holes, in any folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
import random
from uuid import UUID

from hypothesis import strategies as st

from drkit.export.manifest import (
    MANIFEST,
    ExportFormat,
    ExportPart,
    Manifest,
    TailRange,
    partition_export,
)
from drkit.export.parts import PART_BYTES, write_parts
from drkit.export.record import ExportedRecord, Hole, HoleKind, Item, TimestampType
from drkit.export.storage import LocalFolder

TOPIC_ID = UUID(int=7)
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.binary(max_size=12)
MAYBE = st.none() | TEXT
RECORDS = st.builds(
    ExportedRecord,
    st.just(0),
    LONG,
    st.sampled_from(TimestampType),
    MAYBE,
    MAYBE,
    st.lists(st.tuples(TEXT, MAYBE), max_size=3).map(tuple),
    LONG,
)
HOLES = st.tuples(st.integers(1, 40), st.sampled_from(HoleKind))


def in_order(first: int, found: Sequence[ExportedRecord | tuple[int, HoleKind]]) -> list[Item]:
    """Records and lengths of holes, with the offsets that follow each other."""
    items: list[Item] = []
    for each in found:
        if isinstance(each, ExportedRecord):
            items.append(each._replace(offset=first))
            first += 1
        elif items and isinstance(last := items[-1], Hole) and last.kind is each[1]:
            items[-1] = last._replace(end=last.end + each[0])
            first += each[0]
        else:
            items.append(Hole(first, first + each[0], each[1]))
            first += each[0]
    return items


ITEMS = st.builds(in_order, st.integers(0, 2**40), st.lists(RECORDS | HOLES, min_size=1, max_size=12))


def end_of(item: Item) -> int:
    return item.end if isinstance(item, Hole) else item.offset + 1


def first_of(item: Item) -> int:
    return item.first if isinstance(item, Hole) else item.offset


def range_of(items: Sequence[Item], topic: str = "orders", partition: int = 0) -> TailRange:
    return TailRange(topic, TOPIC_ID, partition, first_of(items[0]), end_of(items[-1]))


def some_items(first: int, count: int, seed: int = 1) -> list[Item]:
    """Records of all kinds with a hole now and then."""
    chance = random.Random(seed)
    found: list[ExportedRecord | tuple[int, HoleKind]] = []
    for n in range(count):
        if not n % 5:
            found.append((1, chance.choice([*HoleKind])))
        value = chance.choice([None, b"", b"value %d" % n])
        headers = chance.choice([(), ((b"h", None), (b"h", b""), (b"", b"x"))])
        found.append(
            ExportedRecord(
                0, 1_700_000_000_000 + n, TimestampType(n % 2), b"k%d" % n, value, headers, n % 3 - 1
            )
        )
    return in_order(first, found)


def exported(
    folder: Path,
    tails: Mapping[tuple[str, int], Sequence[Item]],
    how: ExportFormat = ExportFormat.PARQUET,
    *,
    most: int = PART_BYTES,
    change: Callable[[ExportPart], ExportPart] = lambda part: part,
) -> str:
    """Write an export; the path of its manifest.

    :param change: what becomes of each part before it is in the manifest
    """
    storage = LocalFolder(folder)
    storage.make()
    partitions = []
    for (topic, partition), items in sorted(tails.items()):
        wanted = range_of(items, topic, partition)
        parts = write_parts(storage, how, wanted, items, most)
        partitions.append(partition_export(wanted, map(change, parts)))
    manifest = Manifest(
        version=1, cluster_id="c", flow="a->b", run="r-1", term=3, format=how, written_at_ms=5,
        partitions=tuple(partitions),
    )  # fmt: skip
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    return str(folder / MANIFEST)
