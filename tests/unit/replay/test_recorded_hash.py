"""An export whose SHA-256 is on record is replayed as it was written, wherever it lies now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import shutil
from uuid import UUID

import pytest

from drkit.cli.actions.replay import _on_record
from drkit.errors import ExportAltered
from drkit.export.manifest import TailRange
from drkit.flow_state.records import SavedTailRecord, StateRecord, TailRecord, UnreplayedRecord
from drkit.flow_state.state import FlowState
from drkit.replay.tail import Export, export_at
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.replay.exports import Origins, write_export
from tests.support.replay.world import OLD_PRIMARY, TERM, YEAR_MS

TAIL = TailRange("orders", UUID(int=7), 0, 100, 101)
RUN = "r1-5a"


def export(folder: Path, value: bytes, run: str = RUN) -> tuple[str, Export]:
    record = Record(100, YEAR_MS, b"k", value, ())
    manifest = write_export(folder, run, Origins(OLD_PRIMARY, "a->b", TERM), {TAIL: [record]})
    return manifest, export_at(manifest)


def unreplayed(manifest: str, sha256: str) -> tuple[str, StateRecord]:
    return f"orders/{RUN}", UnreplayedRecord("r1", 1, 1, manifest, sha256, "replay")


def saved(manifest: str, sha256: str) -> tuple[str, StateRecord]:
    spans = {0: (100, 101)}
    return f"orders/{RUN}", SavedTailRecord("r1", 1, TERM, TAIL.topic_id, spans, {0: 1}, manifest, sha256)


def tail(manifest: str, sha256: str) -> tuple[str, StateRecord]:
    return "orders", TailRecord("r1", 1, 1, {0: (100, 101)}, manifest, sha256, "discard")


def on_record(name: str, record: StateRecord) -> FlowState:
    found = FlowState()
    found.keep(f"{record.KEY}{name}", record, b"")
    return found


@pytest.mark.parametrize("kind", [unreplayed, saved, tail])
@pytest.mark.parametrize("run", [RUN, "another-1"])
def test_an_edited_export_is_refused(
    tmp_path: Path, kind: Callable[[str, str], tuple[str, StateRecord]], run: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    manifest, written = export(tmp_path, b"pay 10 to bob")
    state = on_record(*kind(manifest, written.sha256))
    assert _on_record(state, written, manifest)
    shutil.rmtree(Path(manifest).parent)
    edited, found = export(tmp_path / "edited", b"pay 9999 to mallory", run)
    shutil.move(Path(edited).parent, Path(manifest).parent)
    monkeypatch.chdir(Path(manifest).parent)
    for path in (manifest, "manifest.json", f"../{RUN}/manifest.json"):
        with pytest.raises(ExportAltered, check=coded("export_altered")) as caught:
            _on_record(state, found, path)
        assert written.sha256 in caught.value.evidence


def test_a_copy_elsewhere_is_known_by_its_run(tmp_path: Path) -> None:
    manifest, written = export(tmp_path, b"pay 10 to bob")
    assert _on_record(on_record(*saved("/saved/manifest.json", written.sha256)), written, manifest)
    with pytest.raises(ExportAltered, check=coded("export_altered")):
        _on_record(on_record(*saved("/saved/manifest.json", "ab" * 32)), written, manifest)


def test_of_another_export_nothing_is_on_record(tmp_path: Path) -> None:
    manifest, written = export(tmp_path, b"pay 10 to bob", "another-1")
    assert not _on_record(on_record(*saved("/saved/manifest.json", "ab" * 32)), written, manifest)
