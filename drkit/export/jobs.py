"""The two Spark jobs of an export, and what the driver does around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted
from drkit.errors import ExportAltered, Refused
from drkit.export.check import check_listing, read_manifest, reading
from drkit.export.folder import ExportRun, absolute, kept, new_folder, publish, run_of
from drkit.export.manifest import (
    ExportPart,
    Manifest,
    PartitionExport,
    TailRange,
    partition_export,
)
from drkit.export.parts import PART_BYTES
from drkit.export.places import local_path, parent, storage_at
from drkit.export.ranges import PER_SLOT, CopiedBack, cut, shares
from drkit.export.request import Exported, ExportRequest, Progress
from drkit.export.task import (
    WrittenRange,
    parts_text,
    ranges_text,
    read_share,
    write_share,
    written,
)
from drkit.kafka.raw import ask_once
from drkit.kafka.requests import describe_cluster
from drkit.spark.conf import secrets_of
from drkit.spark.jobs import SparkJobs
from drkit.spark.master import batch_tasks, choose_master
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.spark.watched import run_watched

_NOTHING_PEAK: Final = 0


def export_by_spark(
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip: CopiedBack,
    progress: Progress,
) -> Exported:
    """See :func:`drkit.export.run.export_tails`."""
    tails = sorted(tails)
    run = run_of(request, progress)
    _refuse_elsewhere(run.folder, request.master)
    if (there := kept(run, tails)) is not None:
        return there
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
    """See :func:`drkit.export.run.read_back`."""
    folder, name = parent(path)
    _refuse_elsewhere(folder, master)
    manifest = read_manifest(path, sha256)
    run = ExportRun(absolute(folder), storage_at(folder), manifest.format, progress)
    with reading(path):
        check_listing(run.storage, path, manifest, {name})
    if manifest.partitions:
        with spark_session("drkit export verify", plan_spark(master, batch_tasks(), conf)) as workshop:
            _read_back(run, workshop, manifest.partitions)
    return manifest


def _refuse_elsewhere(place: str, master: str | None) -> None:
    """Refuse a folder of this machine where tasks run on others: each would write, or look, into its own.

    :raises Refused: the folder is of this machine, and Spark's executors may not be
    """
    if local_path(place) is None or choose_master(master, 1).is_local:
        return
    raise Refused(
        "export_folder_not_shared",
        where=place,
        evidence=f"the executors of {master} would each use a folder of their own machine",
    )


def _written(
    run: ExportRun,
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip: CopiedBack,
) -> tuple[tuple[PartitionExport, ...], int]:
    """The partitions, written and read back, and the memory of the largest task in bytes."""
    terms = request.terms
    if not any(tail.end > tail.first for tail in tails):
        return tuple(partition_export(tail, (), terms.get(tail.topic)) for tail in tails), _NOTHING_PEAK
    offsets = sum(tail.end - tail.first for tail in tails)
    run.progress(
        f"exporting {counted(offsets, 'offset')} of {counted(len(tails), 'partition')} to {run.folder}"
    )
    plan = plan_spark(request.master, batch_tasks(), request.conf, secrets_of(settings, [flow]))
    with spark_session("drkit export", plan) as workshop:
        found, peak = _write(run, workshop, settings.task_sides(flow)[0], tails, skip)
        by_partition: dict[tuple[str, int], list[ExportPart]] = {}
        for wanted, parts in found:
            by_partition.setdefault((wanted.topic, wanted.partition), []).extend(parts)
        partitions = tuple(
            partition_export(tail, by_partition.get((tail.topic, tail.partition), ()), terms.get(tail.topic))
            for tail in tails
        )
        try:
            return partitions, max(peak, _read_back(run, workshop, partitions))
        except ExportAltered as error:  # its files are removed
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
) -> tuple[list[WrittenRange], int]:
    slots, place = workshop.context.defaultParallelism, run.place
    pieces = [(piece.end - piece.first, piece) for piece in cut(skip.split(tails), slots)]
    texts = [ranges_text(share) for share in shares(pieces, slots * PER_SLOT)]
    # Only what a task needs may be pickled with it.
    answers = run_watched(
        SparkJobs(workshop, "drkit export", "export_broke_off", run.folder),
        texts,
        lambda share: write_share(place, share, source, skip, PART_BYTES),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares written"),
    )
    return written(answers)


def _read_back(run: ExportRun, workshop: SharedSpark, partitions: Iterable[PartitionExport]) -> int:
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
        SparkJobs(workshop, "drkit export read back", "export_read_back_broke_off", run.folder),
        texts,
        lambda share: read_share(place, share),
        lambda ended: run.progress(f"{ended} of {len(texts)} shares read back"),
    )
    return written(answers)[1]
