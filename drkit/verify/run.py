"""``drkit verify``: a Spark batch job that compares a flow's source and target, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
import time

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted
from drkit.errors import DrkitError, Failed, Usage
from drkit.flow_state.records import VerifiedRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.spark.conf import secrets_of
from drkit.spark.jobs import SparkJobs
from drkit.spark.master import batch_tasks
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.spark.watched import run_watched
from drkit.verify import snapshot as verify_snapshot
from drkit.verify.ranges import Range, cut
from drkit.verify.report import FlowReport, PartitionResult, join
from drkit.verify.snapshot import Snapshot
from drkit.verify.task import RangeResult, compare_range

Progress = Callable[[str], None]
_BROKE_OFF = "verify_broke_off"


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The topics and options of a verification."""

    flow: str | None = None
    """``source->target``; None: the only one there is, or all."""
    topics: tuple[str, ...] = ()
    only_new: bool = False
    """Begin at the end of the last verification that found the partition equal."""
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark."""


def verify(
    settings: Settings, request: VerifyRequest, progress: Progress = lambda _line: None
) -> list[FlowReport]:
    """Compare flows from the sources' first offsets to the current frontiers.

    Works beside a running replicator. What is found equal is remembered in the flow's state topic.

    :raises Usage: no such flow, or no topic to compare
    :raises Refused: source and target are one cluster, or Spark has no slot
    :raises ClusterUnreachable: a cluster does not answer
    :raises Failed: a cluster stopped answering during the comparison
    """
    flows = settings.chosen_flows([request.flow] if request.flow else [])
    spark = plan_spark(request.master, batch_tasks(), request.conf, secrets_of(settings, flows))
    snapshots = [_snapshot(settings, flow, request, progress) for flow in flows]
    with spark_session("drkit verify", spark) as workshop:
        return [
            _compare(workshop, settings, flow, snapshot, progress)
            for flow, snapshot in zip(flows, snapshots, strict=True)
        ]


def _snapshot(settings: Settings, flow: FlowSettings, request: VerifyRequest, progress: Progress) -> Snapshot:
    progress(f"{flow.name}: looking at both clusters")
    source, target = (Cluster.connect(c) for c in settings.sides(flow))
    refuse_same_cluster(source, target)
    found = verify_snapshot.take(flow, source, target, request.topics, only_new=request.only_new)
    known = {v.source.topic for v in found.views} | {u.topic for u in found.unclear} | set(found.absent)
    if lacking := sorted(set(request.topics) - known):
        raise Usage(
            "verify_topic_unknown",
            where=f"flow {flow.name}",
            evidence=f"of the named topics it copies: {', '.join(sorted(known)[:20]) or 'none'}",
            flow=flow.name,
            topics=", ".join(lacking),
        )
    return found


def _compare(
    workshop: SharedSpark, settings: Settings, flow: FlowSettings, snapshot: Snapshot, progress: Progress
) -> FlowReport:
    started = time.monotonic()
    source, target = settings.task_sides(flow)
    ranges = cut(snapshot.views, workshop.context.defaultParallelism)
    offsets = sum(v.frontier - v.source_start for v in snapshot.views)
    progress(f"{flow.name}: {counted(len(snapshot.views), 'partition')}, {offsets} source offsets to compare")
    results = _run(workshop, ranges, source, target, lambda line: progress(f"{flow.name}: {line}"))
    partitions = join(snapshot.views, results)
    report = FlowReport(
        flow=flow.name,
        partitions=partitions,
        unclear=list(snapshot.unclear),
        absent=snapshot.absent,
        notes=snapshot.notes,
        seconds=time.monotonic() - started,
        peak_memory_bytes=max((r.peak_memory_bytes for r in results), default=0),
    )
    remember_equal(settings.sides(flow)[1], flow, snapshot, partitions, progress)
    return report


def _run(
    workshop: SharedSpark,
    ranges: list[Range],
    source: ClusterSettings,
    target: ClusterSettings,
    progress: Progress,
) -> list[RangeResult]:
    if not ranges:
        return []
    texts = [r.to_json() for r in sorted(ranges, key=lambda r: -r.size)]  # the largest begin first

    def compare_text(text: str) -> str:
        return compare_range(Range.from_json(text), source, target).to_json()

    jobs = SparkJobs(workshop, "drkit verify", _BROKE_OFF, "")
    try:
        answers = run_watched(
            jobs, texts, compare_text, lambda ended: progress(f"{ended} of {len(texts)} ranges compared")
        )
    except DrkitError as error:
        raise Failed(_BROKE_OFF, evidence=error.evidence or error.what) from error
    return [RangeResult.from_json(answer) for answer in answers]


def remember_equal(
    target: ClusterSettings,
    flow: FlowSettings,
    snapshot: Snapshot,
    partitions: Iterable[PartitionResult],
    progress: Progress,
) -> None:
    """Store which partitions are equal, for ``--from-checked``; a failure is reported as progress."""
    equal = {(p.topic, p.partition) for p in partitions if not p.counts.differences and not p.undecided}
    checked = {tp: record for tp, record in snapshot.ends.items() if tp in equal}
    try:
        if checked:
            with closing(StateTopic(target, flow.source)) as state:
                state.put_all((VerifiedRecord.name_of(tp), record) for tp, record in checked.items())
    except Failed as error:
        progress(f"what was verified cannot be remembered: {error.in_short}")
