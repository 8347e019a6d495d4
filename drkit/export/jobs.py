"""The two Spark jobs of an export, and what the driver does around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from drkit import observe
from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted
from drkit.errors import ConfigError, Refused, error_text
from drkit.export.check import check_files, check_listing, read_manifest, reading
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
from drkit.export.ranges import PER_SLOT, cut, shares
from drkit.export.reading import TailReader
from drkit.export.request import Exported, ExportRequest, Progress
from drkit.export.storage import Storage
from drkit.export.task import (
    Place,
    WrittenRange,
    parts_text,
    ranges_text,
    read_share,
    write_share,
    writing,
    written,
)
from drkit.flow_state.codec.fields import Malformed
from drkit.spark.conf import secrets_of
from drkit.spark.jobs import SparkJobs
from drkit.spark.master import batch_tasks, choose_master
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.spark.watched import run_watched

_DRAFT: Final = f"{MANIFEST}.part"
_NOTHING_PEAK: Final = 0


class _Run(NamedTuple):
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


def export_by_spark(
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip_ids: frozenset[int],
    progress: Progress,
) -> Exported:
    """See :func:`drkit.export.run.export_tails`."""
    tails = sorted(tails)
    run = _run_of(request, progress)
    _refuse_elsewhere(run.folder, request.master)
    if (kept := _kept(run, tails)) is not None:
        return kept
    source = settings.task_sides(flow)[0]
    with _new_folder(run):
        partitions, peak = _written(run, settings, flow, request, tails, skip_ids)
        manifest = Manifest(
            version=1, cluster_id=_cluster_id(source), flow=flow.name, run=request.run_id, term=request.term,
            format=run.format, written_at_ms=wall_ms(), partitions=partitions,
        )  # fmt: skip
        _publish(run, manifest)
    return Exported(run.manifest, manifest.sha256, manifest, peak_memory_bytes=peak)


def read_by_spark(
    path: str, sha256: str | None, master: str | None, conf: Mapping[str, str], progress: Progress
) -> Manifest:
    """See :func:`drkit.export.run.read_back`."""
    folder, name = parent(path)
    _refuse_elsewhere(folder, master)
    manifest = read_manifest(path, sha256)
    run = _Run(_absolute(folder), storage_at(folder), manifest.format, progress)
    with reading(path):
        check_listing(run.storage, path, manifest, {name})
    if manifest.partitions:
        with spark_session("drkit divergence verify", plan_spark(master, batch_tasks(), conf)) as workshop:
            _read_back(run, workshop, manifest.partitions)
    return manifest


def _run_of(request: ExportRequest, progress: Progress) -> _Run:
    try:
        run_name(request.run_id)
    except Malformed as error:
        raise ConfigError(
            "the run's id cannot be the name of a folder",
            where=request.run_id,
            evidence=str(error),
            hint="name the run with letters, digits and dashes",
        ) from error
    try:
        how = ExportFormat(request.format)
    except ValueError:
        raise ConfigError(
            f"no format of exports is called '{request.format}'",
            where="--format",
            hint=f"write one of {', '.join(ExportFormat)}",
        ) from None
    folder = joined(_absolute(request.to), request.run_id)
    return _Run(folder, storage_at(folder), how, progress)


def _absolute(place: str) -> str:
    """A place as a task can use it, whatever its working directory is."""
    path = local_path(place)
    return place if path is None else str(path)


def _refuse_elsewhere(place: str, master: str | None) -> None:
    """Refuse a folder of this machine where tasks run on others: each would write, or look, into its own.

    :raises Refused: the folder is of this machine, and Spark's executors may not be
    """
    if local_path(place) is None or choose_master(master, 1).is_local:
        return
    raise Refused(
        "a folder of this machine is none of Spark's executors",
        where=place,
        evidence=f"the executors of {master} would each use a folder of their own machine",
        hint="name a place that all of them reach, such as s3://…, or leave --master out",
    )


def _kept(run: _Run, tails: Sequence[TailRange]) -> Exported | None:
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
                raise Refused(
                    "the folder of the export holds something else",
                    where=run.folder,
                    evidence=", ".join(odd[:5]),
                    hint="name another folder",
                )
            run.progress(f"an interrupted export is replaced: {run.folder}")
            run.storage.remove()
            return None
    found = read_manifest(run.manifest)
    if found.ranges != tuple(tails):
        raise Refused(
            "an export of other offsets is there, and exports are never written over",
            where=run.manifest,
            evidence=_difference(found.ranges, tails),
            hint="name another folder; delete the old one when you need it no more",
        )
    run.progress(f"a complete export is there and is kept: {run.manifest}")
    check_files(run.manifest, found.sha256)
    return Exported(run.manifest, found.sha256, found, is_reused=True)


def _difference(old: Sequence[TailRange], new: Sequence[TailRange]) -> str:
    gone, more = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    shown = [f"there: {gone[0]}"] if gone else []
    return ", ".join([*shown, *([f"wanted: {more[0]}"] if more else [])])


@contextmanager
def _new_folder(run: _Run) -> Iterator[None]:
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


def _cluster_id(source: ClusterSettings) -> str:
    reader = TailReader(source)
    try:
        return reader.cluster_id()
    finally:
        reader.close()


def _written(
    run: _Run,
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip_ids: frozenset[int],
) -> tuple[tuple[PartitionExport, ...], int]:
    """The partitions, written and read back, and the memory of the largest task in bytes."""
    if not any(tail.end > tail.first for tail in tails):
        return tuple(partition_export(tail, ()) for tail in tails), _NOTHING_PEAK
    offsets = sum(tail.end - tail.first for tail in tails)
    run.progress(
        f"exporting {counted(offsets, 'offset')} of {counted(len(tails), 'partition')} to {run.folder}"
    )
    plan = plan_spark(request.master, batch_tasks(), request.conf, secrets_of(settings, [flow]))
    with spark_session("drkit divergence export", plan) as workshop:
        found, peak = _write(run, workshop, settings.task_sides(flow)[0], tails, skip_ids)
        by_partition: dict[tuple[str, int], list[ExportPart]] = {}
        for wanted, parts in found:
            by_partition.setdefault((wanted.topic, wanted.partition), []).extend(parts)
        partitions = tuple(
            partition_export(tail, by_partition.get((tail.topic, tail.partition), ())) for tail in tails
        )
        return partitions, max(peak, _read_back(run, workshop, partitions))


def _write(
    run: _Run,
    workshop: SharedSpark,
    source: ClusterSettings,
    tails: Sequence[TailRange],
    skip_ids: frozenset[int],
) -> tuple[list[WrittenRange], int]:
    slots, place = workshop.context.defaultParallelism, run.place
    pieces = [(piece.end - piece.first, piece) for piece in cut(tails, slots)]
    texts = [ranges_text(share) for share in shares(pieces, slots * PER_SLOT)]
    # Only what a task needs may be pickled with it.
    answers = run_watched(
        SparkJobs(workshop, "drkit export", "the export broke off", run.folder),
        texts,
        lambda share: write_share(place, share, source, skip_ids, PART_BYTES),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares written"),
    )
    return written(answers)


def _read_back(run: _Run, workshop: SharedSpark, partitions: Iterable[PartitionExport]) -> int:
    """Read all parts, and return the memory of the largest task in bytes."""
    place = run.place
    parts = [
        (sum(file.bytes for file in part.files), (each.range, part))
        for each in partitions
        for part in each.parts
    ]
    texts = [parts_text(share) for share in shares(parts, workshop.context.defaultParallelism * PER_SLOT)]
    run.progress(f"reading back {counted(len(parts), 'part')}")
    answers = run_watched(
        SparkJobs(workshop, "drkit export read back", "reading the export back broke off", run.folder),
        texts,
        lambda share: read_share(place, share),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares read back"),
    )
    return written(answers)[1]


def _publish(run: _Run, manifest: Manifest) -> None:
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
