"""What is written is read again, in both formats; what was altered is found, whatever hash the file has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
import json
from pathlib import Path
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st
import pyarrow as pa
from pyarrow import parquet
import pytest

from drkit.export.manifest import ExportedFile, ExportFormat
from drkit.export.parts import Altered, read_part, write_parts
from drkit.export.record import Hole, HoleKind, Item
from drkit.export.storage import LocalFolder
from tests.support.export.made import ITEMS, end_of, first_of, range_of, some_items

FORMATS = st.sampled_from(ExportFormat)


@given(ITEMS, FORMATS, st.integers(1, 60))
@settings(max_examples=25)
def test_what_is_written_is_read(items: list[Item], how: ExportFormat, most: int):
    with tempfile.TemporaryDirectory() as name:
        storage, wanted = LocalFolder(Path(name)), range_of(items)
        parts = write_parts(storage, how, wanted, items, most)
        assert [item for part in parts for item in read_part(storage, how, wanted, part)] == items
        assert (parts[0].first, parts[-1].end) == (wanted.first, wanted.end)
        records = [item for item in items if not isinstance(item, Hole)]
        assert sum(part.records for part in parts) == len(records)
        assert sum(part.content_bytes for part in parts) == sum(record.size for record in records)
        times = [record.timestamp for record in records]
        assert min(times, default=None) == min(
            (p.first_time for p in parts if p.first_time is not None), default=None
        )
        for part in parts[:-1]:
            assert part.content_bytes >= most


def test_holes_that_adjoin_become_one_and_the_chain_is_that_of_one(tmp_path: Path):
    """Where a fetch ends is chance, and two exports of the same offsets have the same chains."""
    whole = [Hole(0, 9, HoleKind.ABORTED)]
    pieces = [Hole(0, 4, HoleKind.ABORTED), Hole(4, 9, HoleKind.ABORTED)]
    (one,), (two,) = (
        write_parts(LocalFolder(tmp_path), ExportFormat.JSONL, range_of(items), items)
        for items in (whole, pieces)
    )
    assert (one.chain, one.holes) == (two.chain, two.holes) == (one.chain, {HoleKind.ABORTED: 9})


def test_files_are_of_their_owner_alone(tmp_path: Path):
    items = some_items(0, 20)
    write_parts(LocalFolder(tmp_path / "x"), ExportFormat.PARQUET, range_of(items), items)
    found = {p.relative_to(tmp_path): p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    assert {mode for path, mode in found.items() if (tmp_path / path).is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if (tmp_path / path).is_file()} == {0o600}
    assert len(found) == 6, "three folders, one of the export, and two files"


def rows_changed(path: Path, how: ExportFormat, change: Callable[[list[object]], None]) -> None:
    if how is ExportFormat.PARQUET:
        table = parquet.read_table(path)
        rows = table.to_pylist()
        change(rows)
        parquet.write_table(pa.Table.from_pylist(rows, table.schema), path)
        return
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def renewed(path: Path) -> ExportedFile:
    data = path.read_bytes()
    return ExportedFile(path.name, len(data), sha256(data).hexdigest())


ROWS = {
    "missing": lambda rows: rows.pop(3),
    "doubled": lambda rows: rows.insert(3, rows[3]),
    "moved": lambda rows: rows.insert(2, rows.pop(5)),
    "renumbered": lambda rows: rows[-1].update(offset=rows[-1]["offset"] + 1),
    "value changed": lambda rows: rows[4].update(value=rows[7]["key"]),
    "key gone": lambda rows: rows[4].update(key=None),
    "time changed": lambda rows: rows[4].update(timestamp=rows[4]["timestamp"] + 1),
    "producer changed": lambda rows: rows[4].update(producer_id=99),
    "header gone": lambda rows: [row.update(headers=[]) for row in rows],
    "other partition": lambda rows: rows[4].update(partition=1),
    "two swapped under their offsets": lambda rows: _swap(rows, 3, 4),
}


def _swap(rows: list[dict[str, object]], one: int, other: int) -> None:
    rows[one]["value"], rows[other]["value"] = rows[other]["value"], rows[one]["value"]
    rows[one]["key"], rows[other]["key"] = rows[other]["key"], rows[one]["key"]


@pytest.mark.parametrize("how", ExportFormat)
@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS)
def test_an_altered_record_is_found_though_the_file_has_the_right_hash(
    tmp_path: Path, how: ExportFormat, change: Callable[[list[object]], None]
):
    storage, items = LocalFolder(tmp_path), some_items(100, 12)
    wanted = range_of(items)
    (part,) = write_parts(storage, how, wanted, items)
    assert part.records_file is not None
    path = tmp_path / "records/orders/0" / part.records_file.name
    rows_changed(path, how, change)
    with pytest.raises(Altered, match="orders-0"):
        list(read_part(storage, how, wanted, replace(part, records_file=renewed(path))))
    with pytest.raises(Altered, match=path.name):
        list(read_part(storage, how, wanted, part))


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop(),
        lambda rows: rows.append(rows[0]),
        lambda rows: rows[0].update(kind="marker" if rows[0]["kind"] != "marker" else "aborted"),
        lambda rows: rows[0].update(end=rows[0]["end"] + 1),
        lambda rows: rows[0].update(kind="unknown"),
        lambda rows: rows[0].update(first=-1),
    ],
)
def test_an_altered_hole_is_found(tmp_path: Path, change: Callable[[list[object]], None]):
    storage, items = LocalFolder(tmp_path), some_items(100, 12)
    wanted = range_of(items)
    (part,) = write_parts(storage, ExportFormat.PARQUET, wanted, items)
    assert part.holes_file is not None
    path = tmp_path / "records/orders/0" / part.holes_file.name
    rows_changed(path, ExportFormat.JSONL, change)
    with pytest.raises(Altered, match="orders-0"):
        list(read_part(storage, ExportFormat.PARQUET, wanted, replace(part, holes_file=renewed(path))))


@pytest.mark.parametrize("how", ExportFormat)
def test_a_file_of_something_else_is_named(tmp_path: Path, how: ExportFormat):
    storage, items = LocalFolder(tmp_path), some_items(100, 12)
    (part,) = write_parts(storage, how, range_of(items), items)
    assert part.records_file is not None
    path = tmp_path / "records/orders/0" / part.records_file.name
    foreign = pa.table({"offset": [1]})
    for write in (
        lambda: path.write_bytes(b"\x00\xff no records"),
        lambda: parquet.write_table(foreign, path),
    ):
        write()
        changed = replace(part, records_file=renewed(path))
        with pytest.raises(Altered, match="orders-0 from offset 100 on cannot be read"):
            list(read_part(storage, how, range_of(items), changed))


def test_memory_does_not_grow_with_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Groups of rows are written as they fill: the rows of one are in memory, and no more."""
    monkeypatch.setattr("drkit.export.parquet._GROUP_BYTES", 20_000)
    items = some_items(0, 2000)
    (part,) = write_parts(LocalFolder(tmp_path), ExportFormat.PARQUET, range_of(items), items)
    assert part.records_file is not None
    found = parquet.ParquetFile(tmp_path / "records/orders/0" / part.records_file.name).metadata
    assert found.num_row_groups > 10
    assert max(found.row_group(n).num_rows for n in range(found.num_row_groups)) < 120
    assert [*read_part(LocalFolder(tmp_path), ExportFormat.PARQUET, range_of(items), part)] == items


def test_a_part_ends_where_the_next_begins(tmp_path: Path):
    items = some_items(7, 100)
    parts = write_parts(LocalFolder(tmp_path), ExportFormat.JSONL, range_of(items), items, 100)
    assert len(parts) > 5
    assert [part.first for part in parts] == [first_of(items[0]), *(part.end for part in parts[:-1])]
    assert parts[-1].end == end_of(items[-1])
