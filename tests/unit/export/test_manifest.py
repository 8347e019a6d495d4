"""Every reader of the manifest gets the same, and any change of it is found."""

from __future__ import annotations

from dataclasses import replace
import json
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.export.manifest import (
    ExportedFile,
    ExportFormat,
    ExportPart,
    Manifest,
    PartitionExport,
    TailRange,
    partition_export,
)
from drkit.export.record import HoleKind
from drkit.flow_state.codec.fields import Malformed
from tests.support.export.made import TOPIC_ID

HASH = "5a" * 32
TIMES = st.none() | st.integers(-(2**63), 2**63 - 1)


def part(first: int, records: int, holes: dict[HoleKind, int], number: int = 0, **more: Any) -> ExportPart:
    return ExportPart(**{
        "first": first, "end": first + records + sum(holes.values()), "records": records,
        "content_bytes": 10 * records, "holes": holes, "first_time": None, "last_time": None, "chain": HASH,
        "records_file": ExportedFile(f"{number}.parquet", 5, HASH) if records else None,
        "holes_file": ExportedFile(f"{number}.holes.jsonl", 6, HASH) if holes else None,
        **more,
    })  # fmt: skip


HOLES = st.dictionaries(st.sampled_from(HoleKind), st.integers(1, 50)).map(
    lambda h: {k: h[k] for k in sorted(h)}
)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[PartitionExport, ...]:
    found = []
    for topic, number in sorted(
        draw(st.sets(st.tuples(st.sampled_from(["a", "b", "a.b", "a-"]), st.integers(0, 3)), max_size=4))
    ):
        first = end = draw(st.integers(0, 2**50))
        parts = []
        for n in range(draw(st.integers(0, 3))):
            parts.append(
                part(
                    end,
                    draw(st.integers(0, 50)),
                    draw(HOLES),
                    n,
                    first_time=draw(TIMES),
                    last_time=draw(TIMES),
                )
            )
            end = parts[-1].end
        found.append(partition_export(TailRange(topic, UUID(int=n_of(topic)), number, first, end), parts))
    return tuple(sorted(found, key=lambda p: (p.topic, p.partition)))


def n_of(topic: str) -> int:
    return int.from_bytes(topic.encode())


def manifest(found: tuple[PartitionExport, ...] = (), **more: Any) -> Manifest:
    return Manifest(**{
        "version": 1, "cluster_id": "c-id", "flow": "a->b", "run": "r-1", "term": 3,
        "format": ExportFormat.PARQUET, "written_at_ms": 1, "partitions": found, **more,
    })  # fmt: skip


ONE = manifest((
    partition_export(
        TailRange("orders", TOPIC_ID, 0, 10, 20), [part(10, 4, {HoleKind.MARKER: 1}), part(15, 5, {}, 1)]
    ),
))  # fmt: skip


@given(partitions())
@settings(max_examples=40)
def test_a_manifest_is_read_as_it_was_written(found: tuple[PartitionExport, ...]):
    written = manifest(found)
    assert Manifest.parse(written.to_bytes()) == written
    assert written.ranges == tuple(p.range for p in found)


def test_each_partition_has_the_term_of_its_failover_and_an_earlier_version_wrote_one():
    earlier = Manifest.parse(ONE.to_bytes())
    assert b'"term": 3' in ONE.to_bytes()
    assert ONE.to_bytes().count(b'"term"') == 1
    assert [earlier.term_of(p) for p in earlier.partitions] == [3]
    now = manifest((replace(ONE.partitions[0], term=2),))
    read = Manifest.parse(now.to_bytes())
    assert [read.term_of(p) for p in read.partitions] == [2]
    assert read.partitions[0].chain == ONE.partitions[0].chain


@given(st.integers(0, len(ONE.to_bytes()) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(at: int, difference: int):
    data = bytearray(ONE.to_bytes())
    data[at] ^= difference
    with pytest.raises(Malformed):
        Manifest.parse(bytes(data))


@given(st.integers(0, len(ONE.to_bytes()) - 1))
def test_so_is_one_that_is_cut_off(size: int):
    with pytest.raises(Malformed):
        Manifest.parse(ONE.to_bytes()[:size])


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["partitions"][0]["parts"].pop(),
        lambda raw: raw["partitions"][0].update(end=21),
        lambda raw: raw["partitions"][0]["parts"].reverse(),
        lambda raw: raw["partitions"].append(raw["partitions"][0]),
        lambda raw: raw["partitions"][0]["parts"][0]["records_file"].update(name="../0.parquet"),
        lambda raw: raw["partitions"][0]["parts"][1]["records_file"].update(name="0.parquet"),
        lambda raw: raw["partitions"][0]["parts"][0].update(holes_file=None),
        lambda raw: raw["partitions"][0]["parts"][0].update(chain="00" * 32),
        lambda raw: raw["partitions"][0]["parts"][0].update(records=5),
        lambda raw: raw["partitions"][0].update(topic=".."),
        lambda raw: raw["partitions"][0].update(topic="a/b"),
        lambda raw: raw.update(run="../r"),
        lambda raw: raw.update(run=""),
        lambda raw: raw.update(drkit_export=2),
        lambda raw: raw.update(more=1),
    ],
)
def test_a_contradiction_is_found_though_the_hash_fits(change: Any):
    raw = ONE.to_json()
    change(raw)
    try:
        data = Manifest.of(raw).to_bytes()
    except Malformed:
        return
    if data == ONE.to_bytes():  # a field that this drkit does not know: it is not in the hash, so not allowed
        data = json.dumps({**raw, "sha256": ONE.sha256}, indent=1).encode() + b"\n"
    with pytest.raises(Malformed):
        Manifest.parse(data)


def test_another_order_or_layout_is_not_the_manifest():
    raw = json.loads(ONE.to_bytes())
    for data in (json.dumps(raw), json.dumps(raw, indent=2), json.dumps(raw, indent=1, sort_keys=True)):
        with pytest.raises(Malformed, match="not what drkit wrote"):
            Manifest.parse(data.encode() + b"\n")


def test_each_field_is_in_the_hash():
    hashes = {
        each.sha256
        for each in (
            ONE,
            replace(ONE, cluster_id="x"),
            replace(ONE, flow="x"),
            replace(ONE, run="x"),
            replace(ONE, term=4),
            replace(ONE, format=ExportFormat.JSONL),
            replace(ONE, written_at_ms=2),
            replace(ONE, partitions=()),
        )
    }
    assert len(hashes) == 8


def test_totals():
    parts = [
        part(0, 4, {HoleKind.MARKER: 1}, first_time=-5, last_time=9),
        part(5, 0, {HoleKind.ABORTED: 2, HoleKind.REMOVED: 3}, 1),
        part(10, 1, {}, 2, first_time=7, last_time=8),
    ]
    found = manifest((partition_export(TailRange("t", TOPIC_ID, 0, 0, 11), parts),)).totals()
    assert (found.records, found.content_bytes, found.files, found.file_bytes) == (5, 50, 4, 22)
    assert (found.first_time, found.last_time) == (-5, 9)
    assert found.holes == {HoleKind.MARKER: 1, HoleKind.ABORTED: 2, HoleKind.REMOVED: 3}
    assert (manifest().totals().first_time, manifest().totals().records) == (None, 0)


def test_no_manifest_is_as_large_as_that(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drkit.export.manifest.MOST_BYTES", len(ONE.to_bytes()) - 1)
    with pytest.raises(Malformed, match="bytes"):
        Manifest.parse(ONE.to_bytes())
