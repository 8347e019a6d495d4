"""The two Spark jobs of an export, its folder, and what the driver does around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from drkit import observe
from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted
from drkit.errors import ConfigError, ExportAltered, Refused, error_text
from drkit.export.check import check_files, check_listing, listed_manifest, read_manifest
from drkit.export.manifest import (
    MANIFEST,
    RECORDS,
    ExportFormat,
    ExportPart,
    Manifest,
    PartitionExport,
    TailRange,
    partition_export,
    run_name,
)
from drkit.export.parts import PART_BYTES
from drkit.export.places import joined, local_path, parent, storage_at
from drkit.export.request import PER_SLOT, CopiedBack, Exported, ExportRequest, Progress, cut, shares
from drkit.export.storage import Storage
from drkit.export.task import Place, read_share, share_text, write_share, writing, written
from drkit.flow_state.codec.fields import Malformed
from drkit.kafka.raw import ask_once
from drkit.kafka.requests import describe_cluster
from drkit.spark.conf import secrets_of
from drkit.spark.jobs import SparkJobs
from drkit.spark.master import batch_tasks, choose_master
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.spark.watched import run_watched

_DRAFT: Final = f"{MANIFEST}.part"
_NOTHING_PEAK: Final = 0


class ExportRun(NamedTuple):
    """One export."""

    folder: str
    storage: Storage
    format: ExportFormat
    progress: Progress

    @property
    def place(self) -> Place:
        """The folder and format, for the tasks."""
        return Place(self.folder, self.format)

    @property
    def manifest(self) -> str:
        """The path of its manifest."""
        return joined(self.folder, MANIFEST)


def run_of(request: ExportRequest, progress: Progress) -> ExportRun:
    """Return the run of a request, without a look at the storage.

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


def absolute(folder: str) -> str:
    """Return a path as an absolute one, so that a task with another working directory can use it."""
    path = local_path(folder)
    return folder if path is None else str(path)


def kept(run: ExportRun, tails: Sequence[TailRange]) -> Exported | None:
    """Return the complete export that exists already, or None; an interrupted one is removed.

    :raises Refused: another export exists, or an altered one, or something else is in the folder
    """
    with writing(run.folder):
        if not run.storage.exists():
            return None
        paths = [file.path for file in run.storage.files()]
        if MANIFEST not in paths:
            odd = [path for path in paths if path != _DRAFT and not path.startswith(f"{RECORDS}/")]
            if odd:
                raise Refused("export_folder_in_use", where=run.folder, evidence=", ".join(odd[:5]))
            run.progress(f"an interrupted export is replaced: {run.folder}")
            run.storage.remove()
            return None
    manifest = read_manifest(run.manifest)
    if manifest.ranges != tuple(tails):
        raise Refused("export_exists", where=run.manifest, evidence=_difference(manifest.ranges, tails))
    run.progress(f"a complete export is there and is kept: {run.manifest}")
    check_files(run.manifest, manifest.sha256)
    return Exported(run.manifest, manifest.sha256, manifest, is_reused=True)


def _difference(old: Sequence[TailRange], new: Sequence[TailRange]) -> str:
    gone, more = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    shown = [f"there: {gone[0]}"] if gone else []
    return ", ".join([*shown, *([f"wanted: {more[0]}"] if more else [])])


@contextmanager
def new_folder(run: ExportRun) -> Iterator[None]:
    """Create the run's folder, and remove it after a failure."""
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
    """Write the manifest, once its files are complete and no others exist."""
    data = manifest.to_bytes()
    Manifest.parse(data)
    with writing(run.folder):
        known = {f"{folder}/{file.name}" for folder, file in manifest.files()}
        # Failed attempts of tasks leave files.
        for file in list(run.storage.files()):
            if file.path not in known:
                run.storage.delete(file.path)
        with closing(run.storage.create(_DRAFT)) as draft:
            draft.write(data)
        check_listing(run.storage, run.folder, manifest, {_DRAFT})
        run.storage.publish(_DRAFT, MANIFEST)
    read_manifest(run.manifest, manifest.sha256)


def export_by_spark(
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip: CopiedBack,
    progress: Progress,
) -> Exported:
    """Export tails in Spark jobs, as :func:`drkit.export.run.export_tails` describes."""
    tails = sorted(tails)
    run = run_of(request, progress)
    _refuse_elsewhere(run.folder, request.master)
    if (exported := kept(run, tails)) is not None:
        return exported
    source = settings.task_sides(flow)[0]
    with new_folder(run):
        partitions, peak = _written(run, settings, flow, request, tails, skip)
        cluster_id = ask_once(source, "export", describe_cluster, what="ask for its cluster id").cluster_id
        manifest = Manifest(
            version=1, cluster_id=cluster_id, flow=flow.name, run=request.run_id,
            term=max((p.term for p in partitions if p.term is not None), default=0),
            format=run.format, written_at_ms=wall_ms(), partitions=partitions,
        )  # fmt: skip
        publish(run, manifest)
    return Exported(run.manifest, manifest.sha256, manifest, peak_memory_bytes=peak)


def read_by_spark(
    path: str, sha256: str | None, master: str | None, conf: Mapping[str, str], progress: Progress
) -> Manifest:
    """Read an export in a Spark job, as :func:`drkit.export.run.read_back` describes."""
    folder = parent(path)[0]
    _refuse_elsewhere(folder, master)
    manifest = listed_manifest(path, sha256)
    run = ExportRun(absolute(folder), storage_at(folder), manifest.format, progress)
    if manifest.partitions:
        with spark_session("drkit export verify", plan_spark(master, batch_tasks(), conf)) as workshop:
            _read_back(run, workshop, manifest.partitions)
    return manifest


def _refuse_elsewhere(folder: str, master: str | None) -> None:
    """Refuse a folder of this machine where tasks run on others: each would use one of its own."""
    if local_path(folder) is None or choose_master(master, 1).is_local:
        return
    evidence = f"the executors of {master} would each use a folder of their own machine"
    raise Refused("export_folder_not_shared", where=folder, evidence=evidence)


def _written(
    run: ExportRun,
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip: CopiedBack,
) -> tuple[tuple[PartitionExport, ...], int]:
    terms = request.terms
    if not any(tail.end > tail.first for tail in tails):
        return tuple(partition_export(tail, (), terms.get(tail.topic)) for tail in tails), _NOTHING_PEAK
    offsets = sum(tail.end - tail.first for tail in tails)
    run.progress(
        f"exporting {counted(offsets, 'offset')} of {counted(len(tails), 'partition')} to {run.folder}"
    )
    plan = plan_spark(request.master, batch_tasks(), request.conf, secrets_of(settings, [flow]))
    with spark_session("drkit export", plan) as workshop:
        exports, peak = _write(run, workshop, settings.task_sides(flow)[0], tails, skip)
        by_partition: dict[tuple[str, int], list[ExportPart]] = {}
        for each in exports:
            by_partition.setdefault((each.topic, each.partition), []).extend(each.parts)
        partitions = tuple(
            partition_export(tail, by_partition.get((tail.topic, tail.partition), ()), terms.get(tail.topic))
            for tail in tails
        )
        try:
            return partitions, max(peak, _read_back(run, workshop, partitions))
        except ExportAltered as error:  # the folder is removed
            error.hint = (
                "nothing of it is left: check the disk, and export again: drkit divergence export --to DIR"
            )
            raise


def _write(
    run: ExportRun,
    workshop: SharedSpark,
    source: ClusterSettings,
    tails: Sequence[TailRange],
    skip: CopiedBack,
) -> tuple[list[PartitionExport], int]:
    slots, place = workshop.context.defaultParallelism, run.place
    pieces = [
        (piece.end - piece.first, partition_export(piece, ())) for piece in cut(skip.split(tails), slots)
    ]
    texts = [share_text(share) for share in shares(pieces, slots * PER_SLOT)]
    # Only what a task needs may be pickled with it.
    answers = run_watched(
        SparkJobs(workshop, "drkit export", "export_broke_off", run.folder),
        texts,
        lambda share: write_share(place, share, source, skip, PART_BYTES),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares written"),
    )
    return written(answers)


def _read_back(run: ExportRun, workshop: SharedSpark, partitions: Iterable[PartitionExport]) -> int:
    place = run.place
    parts = [
        (sum(file.bytes for file in part.files), partition_export(each.range, [part]))
        for each in partitions
        for part in each.parts
    ]
    texts = [share_text(share) for share in shares(parts, workshop.context.defaultParallelism * PER_SLOT)]
    run.progress(f"reading back {counted(len(parts), 'part')}")
    answers = run_watched(
        SparkJobs(workshop, "drkit export read back", "export_read_back_broke_off", run.folder),
        texts,
        lambda share: read_share(place, share),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares read back"),
    )
    return written(answers)[1]
