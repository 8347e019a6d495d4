"""A return whose export is damaged, or has no room, is held, and the old primary keeps everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
import shutil

import pytest

from drkit.errors import DrkitError, ExportAltered, Failed
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.limited import full_disk
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters

CASES = {
    "damaged": Case("discard", "rebuild", tail=6), "full": Case("replay", "rebuild", tail=12),
    "emptied": Case("replay", "rebuild", tail=12),
}  # fmt: skip


def _missing(saved: Path) -> None:
    _a_file(saved).unlink()


def _doubled(saved: Path) -> None:
    file = _a_file(saved)
    shutil.copy(file, file.with_name(f"again-{file.name}"))


def _altered(saved: Path) -> None:
    manifest = saved / "manifest.json"
    manifest.chmod(0o600)
    manifest.write_bytes(manifest.read_bytes().replace(b"0", b"1", 1))


def _without(saved: Path) -> None:
    (saved / "manifest.json").unlink()


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file is missing": (_missing, "missing: "),
    "a file is there twice": (_doubled, "not in the manifest: "),
    "a byte of the manifest": (_altered, "manifest"),
    "no manifest": (_without, "manifest"),
}


def _a_file(saved: Path) -> Path:
    return next(p for p in sorted(saved.rglob("*.parquet")) if p.is_file())


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    with dead_primary(primary, target, tmp_path, CASES) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_nothing_is_emptied_while_an_export_is_not_whole(home: DeadPrimary, tmp_path: Path) -> None:
    damaged, full, emptied = home.topics
    _is_mended(home, tmp_path, damaged)
    _has_no_room(home, tmp_path, full)
    _is_the_only_copy(home, tmp_path, emptied)
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 100
    home.positions_are_right()


def _is_mended(home: DeadPrimary, folder: Path, topic: str) -> None:
    """One return, held by each damage, and resumed when the export is as it was written."""
    side, request = home.side, home.request(folder / "saved", [topic])
    before = _there(home, topic)
    for name, (damage, why) in DAMAGES.items():
        refused = _refused(home, request, topic, damage)
        assert refused is not None, name
        assert why in f"{refused.where} {refused.evidence}", (name, refused)
        assert refused.hint, name
        if isinstance(refused, ExportAltered):
            assert f"{side.source.alias} still has the records of {topic}" in refused.hint, name
            assert "export them again: drkit reprotect --abort" in refused.hint
        assert side.run_log().state is RunState.HELD
        assert _there(home, topic) == before, name
        _restored(_saved(home))
    with side.desk() as desk:
        assert desk.resume(request)["state"] == "done"


def _is_the_only_copy(home: DeadPrimary, folder: Path, topic: str) -> None:
    """Damaged after the topic was emptied: the records cannot be exported again, and no hint says so."""
    side, request = home.side, home.request(folder / "only", [topic])

    aside: list[Path] = []

    def tell(progress: StepProgress) -> None:
        if progress.step is StepName.REPLAY and not aside:
            aside.append(_saved(home))
            _set_aside(_saved(home))
            _missing(_saved(home))

    with side.desk(tell=tell) as desk, pytest.raises(ExportAltered) as held:
        desk.begin_return(request, topics=[topic])
    assert "the export is the only copy" in held.value.hint
    manifest = _saved(home) / "manifest.json"
    given_up = f'drkit replay --from {manifest} --topic {topic} --give-up "WHY"'
    assert held.value.hint.endswith(f"drkit reprotect --abort, then: {given_up}")
    assert "export again" not in held.value.hint
    with side.desk() as desk:
        assert desk.abort("for the test")["state"] == "aborted"
    refused = drkit(written(side, folder), "replay", "--from", str(manifest), "--topic", topic, "--yes")
    assert refused.code == 3, refused
    assert f'--from {manifest} --topic {topic} --give-up "WHY"' in refused.err.replace("\\", "")
    assert "the export is the only copy" in refused.err
    _restored(_saved(home))
    done = drkit(written(side, folder), "replay", "--from", str(manifest), "--topic", topic, "--yes")
    assert done.code == 0, done


def _has_no_room(home: DeadPrimary, folder: Path, topic: str) -> None:
    """The disk is full while it is exported: another place takes it."""
    side, request = home.side, home.request(folder / "full", [topic])
    before = _there(home, topic)
    with full_disk() as jvms, side.desk() as desk:
        assert jvms == 1
        with pytest.raises(Failed, check=coded("export_not_written")) as caught:
            desk.begin_return(request, topics=[topic])
        assert "--resume" in caught.value.hint, caught.value
    run = side.run_log()
    assert run.state is RunState.HELD
    assert StepName.EXPORT not in run.results
    assert not [*(folder / "full").iterdir()], "what was half written is gone"
    assert _there(home, topic) == before
    with side.desk() as desk:
        report = desk.resume(request._replace(export_to=str(folder / "elsewhere")))
    assert report["state"] == "done", report
    exported = side.run_log().results[StepName.EXPORT]["evidence"]
    assert exported["manifest"].startswith(str(folder / "elsewhere"))


def _refused(
    home: DeadPrimary, request: RunRequest, topic: str, damage: Callable[[Path], None]
) -> DrkitError | None:
    """What a return says whose export is damaged right before the topic is emptied."""

    def tell(progress: StepProgress) -> None:
        if progress.step is StepName.BEGIN and progress.what == f"{topic} begins":
            _set_aside(_saved(home))
            damage(_saved(home))

    with home.side.desk(tell=tell) as desk:
        try:
            if desk.under_way is None:
                desk.begin_return(request, topics=[topic])
            else:
                desk.resume(request)
        except DrkitError as error:
            return error
    return None


def _set_aside(saved: Path) -> None:
    """A copy of the export, as it was written."""
    shutil.rmtree(saved.with_name("as-written"), ignore_errors=True)
    shutil.copytree(saved, saved.with_name("as-written"))


def _restored(saved: Path) -> None:
    shutil.rmtree(saved)
    shutil.copytree(saved.with_name("as-written"), saved)


def _saved(home: DeadPrimary) -> Path:
    return Path(home.side.run_log().results[StepName.EXPORT]["evidence"]["manifest"]).parent


def _there(home: DeadPrimary, topic: str) -> dict[int, list[bytes]]:
    return {p: values(r) for p, r in home.side.records(home.side.source, topic).items()}
