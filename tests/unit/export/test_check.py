"""A file that is changed, missing, doubled or no file, and an altered manifest, are found by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import re
import shutil

import pytest

from drkit.errors import ConfigError, Failed, Refused
from drkit.export.check import check_files, exported_records
from drkit.export.manifest import ExportFormat
from drkit.export.record import Hole, Item
from tests.support.errors import coded
from tests.support.export.made import exported, some_items

TAILS: dict[tuple[str, int], list[Item]] = {
    ("orders", 0): some_items(100, 40),
    ("orders", 1): some_items(7, 20, 2),
    ("manifest.json", 0): some_items(0, 5, 3),
}


def records(items: list[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, Hole)]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(exported(tmp_path / "to" / "r-1", TAILS, most=200))


@pytest.mark.parametrize("how", ExportFormat)
def test_an_export_is_checked_and_its_records_are_read(tmp_path: Path, how: ExportFormat):
    path = exported(tmp_path / "r-1", TAILS, how, most=100)
    manifest = check_files(path)
    assert check_files(f"file://{path}", manifest.sha256.upper()) == manifest
    for (topic, partition), items in TAILS.items():
        assert [*exported_records(path, topic, partition)] == records(items)
        assert [*exported_records(path, topic, partition, manifest)] == records(items)
    assert [*exported_records(path, "orders", 2)] == []


def test_it_may_be_moved_as_a_whole(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.move(export.parent, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    check_files("manifest.json")
    assert [*exported_records("manifest.json", "orders", 0)] == records(TAILS["orders", 0])


def a_file(export: Path) -> Path:
    return min((export.parent / "records/orders/0").glob("*.parquet"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


ALTERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte flipped": (lambda e: flip(a_file(e)), "records/orders/0/.*another content"),
    "cut off": (lambda e: a_file(e).write_bytes(a_file(e).read_bytes()[:-1]), "records/orders/0/.* bytes"),
    "missing": (lambda e: a_file(e).unlink(), "missing: records/orders/0/"),
    "doubled": (
        lambda e: shutil.copy(a_file(e), f"{a_file(e)}.copy"),
        "not in the manifest: records/orders/0/",
    ),
    "moved": (
        lambda e: a_file(e).rename(e.parent / "records/orders/1" / a_file(e).name),
        "missing: records/orders/0",
    ),
    "another file": (lambda e: (e.parent / "README").write_text(""), "not in the manifest: README"),
    "a link": (lambda e: _linked(a_file(e)), "no plain file: records/orders/0/"),
    "a linked folder": (lambda e: (e.parent / "more").symlink_to(e.parent.parent), "no plain file: more"),
    "a byte of the manifest flipped": (flip, "the manifest: "),
    "the manifest cut off": (lambda e: e.write_bytes(e.read_bytes()[:-1]), "the manifest: "),
    "a line of the manifest doubled": (
        lambda e: e.write_text(e.read_text().replace('"term": 3,', '"term": 3,\n "term": 3,')),
        "the manifest: its text",
    ),
}


def _linked(path: Path) -> None:
    target = path.rename(path.parent.parent.parent.parent.parent / path.name)
    path.symlink_to(target)


@pytest.mark.parametrize(("alter", "named"), ALTERED.values(), ids=ALTERED)
def test_what_was_altered_is_named(export: Path, alter: Callable[[Path], object], named: str):
    check_files(str(export))
    alter(export)
    with pytest.raises(Refused) as refused:
        check_files(str(export))
    assert re.search(named, refused.value.evidence), refused.value.evidence
    assert refused.value.where == str(export)


def test_another_manifest_than_that_of_the_journal_is_refused(export: Path, tmp_path: Path):
    other = exported(tmp_path / "other", {("orders", 0): some_items(100, 40, 9)})
    sha256 = check_files(other).sha256
    with pytest.raises(Refused, check=coded("export_altered")) as refused:
        check_files(str(export), sha256)
    assert sha256 in refused.value.evidence


def test_records_of_a_changed_file_are_never_returned(export: Path):
    """Not even those before the change: a replay of them cannot be undone."""
    flip(a_file(export))
    with pytest.raises(Refused, check=coded("export_altered")):
        next(exported_records(str(export), "orders", 0))
    assert [*exported_records(str(export), "orders", 1)] == records(TAILS["orders", 1])


def test_no_manifest_is_an_incomplete_export(export: Path):
    export.unlink()
    for path in (export, export.parent, a_file(export) / "x"):
        with pytest.raises(ConfigError, check=coded("export_manifest_missing")):
            check_files(str(path))


def test_what_cannot_be_read_is_no_alteration(export: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("drkit.export.parts.file_hash", broken)
    with pytest.raises(Failed, check=coded("export_unreadable")) as failed:
        check_files(str(export))
    assert failed.value.evidence == "Input/output error"
