"""The folder of one export: made for it alone, published with its manifest, removed after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from drkit import observe
from drkit.errors import ConfigError, Refused, error_text
from drkit.export.check import check_files, check_listing, read_manifest
from drkit.export.manifest import MANIFEST, RECORDS, ExportFormat, Manifest, TailRange, run_name
from drkit.export.places import joined, local_path, storage_at
from drkit.export.request import Exported, ExportRequest, Progress
from drkit.export.storage import Storage
from drkit.export.task import Place, writing
from drkit.flow_state.codec.fields import Malformed

_DRAFT: Final = f"{MANIFEST}.part"


class ExportRun(NamedTuple):
    """One export."""

    folder: str
    storage: Storage
    format: ExportFormat
    progress: Progress

    @property
    def place(self) -> Place:
        """For the tasks."""
        return Place(self.folder, self.format)

    @property
    def manifest(self) -> str:
        """Where its manifest will be."""
        return joined(self.folder, MANIFEST)


def run_of(request: ExportRequest, progress: Progress) -> ExportRun:
    """Return the run that a request asks for; nothing is looked at yet.

    :raises ConfigError: no such format, no such folder or URL, or an id that is not a valid folder name
    """
    try:
        run_name(request.run_id)
    except Malformed as error:
        raise ConfigError("run_id_no_folder_name", where=request.run_id, evidence=str(error)) from error
    try:
        how = ExportFormat(request.format)
    except ValueError:
        raise ConfigError(
            "export_format_unknown",
            where="--format",
            format=request.format,
            exportformat=", ".join(ExportFormat),
        ) from None
    folder = joined(absolute(request.to), request.run_id)
    return ExportRun(folder, storage_at(folder), how, progress)


def absolute(place: str) -> str:
    """The path as an absolute one, so that a task with another working directory can use it."""
    path = local_path(place)
    return place if path is None else str(path)


def kept(run: ExportRun, tails: Sequence[TailRange]) -> Exported | None:
    """The complete export that is there already; what was interrupted is removed.

    :raises Refused: another export is there, or one that is not what was written, or something else
    """
    with writing(run.folder):
        if not run.storage.exists():
            return None
        there = [found.path for found in run.storage.files()]
        if MANIFEST not in there:
            odd = [path for path in there if path != _DRAFT and not path.startswith(f"{RECORDS}/")]
            if odd:
                raise Refused("export_folder_in_use", where=run.folder, evidence=", ".join(odd[:5]))
            run.progress(f"an interrupted export is replaced: {run.folder}")
            run.storage.remove()
            return None
    found = read_manifest(run.manifest)
    if found.ranges != tuple(tails):
        raise Refused("export_exists", where=run.manifest, evidence=_difference(found.ranges, tails))
    run.progress(f"a complete export is there and is kept: {run.manifest}")
    check_files(run.manifest, found.sha256)
    return Exported(run.manifest, found.sha256, found, is_reused=True)


def _difference(old: Sequence[TailRange], new: Sequence[TailRange]) -> str:
    gone, more = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    shown = [f"there: {gone[0]}"] if gone else []
    return ", ".join([*shown, *([f"wanted: {more[0]}"] if more else [])])


@contextmanager
def new_folder(run: ExportRun) -> Iterator[None]:
    """The run's folder, which is removed again after a failure."""
    with writing(run.folder):
        run.storage.make()
    try:
        yield
    except BaseException:
        try:
            run.storage.remove()
        except OSError as error:
            observe.event(
                "export_left_behind", level="warning", folder=run.folder, evidence=error_text(error)
            )
        raise


def publish(run: ExportRun, manifest: Manifest) -> None:
    """Write the manifest, when all else is there and nothing besides it."""
    data = manifest.to_bytes()
    Manifest.parse(data)
    with writing(run.folder):
        known = {f"{folder}/{file.name}" for folder, file in manifest.files()}
        # Of attempts of a task that failed.
        for found in list(run.storage.files()):
            if found.path not in known:
                run.storage.delete(found.path)
        draft = run.storage.create(_DRAFT)
        try:
            draft.write(data)
        finally:
            draft.close()
        check_listing(run.storage, run.folder, manifest, {_DRAFT})
        run.storage.publish(_DRAFT, MANIFEST)
    read_manifest(run.manifest, manifest.sha256)
