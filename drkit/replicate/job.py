"""One flow at work: its lease, its topics, its epochs, and the query that copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
import shutil
import tempfile
import threading
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from drkit import observe
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import ConfigError, DrkitError
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.kafka.topics import broker_config, list_offsets
from drkit.model import TopicPartition
from drkit.replicate import mapstore, state_topic
from drkit.replicate.epochs import Epochs
from drkit.replicate.flow_lease import FlowLease
from drkit.replicate.lease import PartitionLease, TaskLease
from drkit.replicate.planner import Placed, Rates, bucket_of
from drkit.replicate.producer_ids import own_ids, reverse_ids
from drkit.replicate.progress import Progress
from drkit.replicate.query import Report, cause_of, start_query
from drkit.replicate.session import Workshop
from drkit.replicate.state_topic import StateTopic
from drkit.replicate.supervisor import is_transient
from drkit.replicate.topic_rules import CopiedTopic, Round
from drkit.replicate.topic_sync import TopicSync

GRACE_SECONDS: Final = 15.0
_WATCH_SECONDS: Final = 0.1
_DRAIN_SECONDS: Final = 1.5
_GOODBYE_SECONDS: Final = 0.5
_EXPIRATION: Final = "producer.id.expiration.ms"
_LEASE_SHARE: Final = 4
"""Live mode ends at this fraction of the time after which a broker forgets a producer."""


class FlowJob:
    """A flow with what outlives one attempt to run it.

    :param run_id: of this process; the lease on the target carries it
    :param once: end when everything that stood on the source at the start is copied
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: FlowSettings,
        workshop: Workshop,
        run_id: str,
        *,
        once: bool = False,
    ) -> None:
        self.flow = flow
        self.clusters = clusters
        self.workshop = workshop
        self.run_id = run_id
        self.once = once
        self.rates = Rates()
        self.found = Round()
        self.ends: dict[TopicPartition, int] | None = None
        """With `once`: where to end, as seen at the first attempt's start."""
        self.progress: Progress | None = None
        self.leases: Callable[[], list[PartitionLease]] = list

    def run(self, stop: threading.Event) -> None:
        """Copy until `stop` is set, or with `once` until the ends are reached.

        :raises DrkitError: something that this attempt does not survive
        """
        source, target = (Cluster.connect(c) for c in self.clusters)
        refuse_same_cluster(source, target)
        state_topic.ensure_state_topic(target, self.flow)
        folder = Path(tempfile.mkdtemp(prefix="flow-", dir=self.workshop.folder))
        try:
            with StateTopic(target.settings, self.flow.source) as state:
                lease = FlowLease(target.settings, self.flow, state, self.run_id)
                lease.acquire(stop.is_set)
                try:
                    Attempt(self, source, target, state, lease, folder).run(stop)
                finally:
                    within(_GOODBYE_SECONDS, lease.release)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def all_copied(self) -> bool:
        """With `once`: every partition has reached its end or is left alone."""
        if self.ends is None or self.progress is None:
            return False
        totals = self.progress.totals
        return all(
            str(at) in totals.stopped or totals.frontiers.get(at, -1) >= end for at, end in self.ends.items()
        )


class Attempt:
    """One life of the query, between taking the lease and giving it back."""

    def __init__(
        self,
        job: FlowJob,
        source: Cluster,
        target: Cluster,
        state: StateTopic,
        lease: FlowLease,
        folder: Path,
    ) -> None:
        state.load()
        state_topic.ensure_offset_map(target, job.flow, state)
        self._job = job
        self._source = source
        self._state = state
        self._lease = lease
        self._plan_file = folder / "plan.json"
        self._sync = TopicSync(source, target, job.flow, state)
        frame = task_frame(job, source, target, state)
        once = job.once
        self._epochs = Epochs(frame, job.flow.tasks, self._plan_file, job.rates, short_first=not once)
        job.leases = lambda: self._epochs.leases
        self._progress = job.progress = job.progress or Progress(job.flow, source, target)
        self._finished = threading.Event()
        self._between_epochs = threading.Event()
        self._told_nothing = False
        self._untold = False
        """The plan changed and the running tasks have not been told."""

    def run(self, stop: threading.Event) -> None:
        """Start the query and watch it to its end."""
        self._look()
        if self._job.once and self._job.all_copied():
            return
        job = self._job
        query = start_query(job.workshop.spark, self._plan_file, job.clusters, job.flow, self._epoch_ended)
        try:
            self._watch(query, stop)
        finally:
            self._end(query)

    def _look(self) -> None:
        """Look at both clusters' topics and change the plan when it must change."""
        job = self._job
        job.found = self._sync.look()
        placed = list(_placed(job.found, job.flow.buckets))
        if job.once:
            placed = self._bounded(placed)
        if not placed and not self._told_nothing:
            self._told_nothing = True
            observe.event("nothing_to_copy", level="warning", flow=job.flow.name,
                          topics=list(job.flow.topics), left_out=len(job.found.left_out))  # fmt: skip
        if self._epochs.update(placed):
            self._untold = True
        if self._untold:
            observe.event("plan_changed", flow=job.flow.name, plan=self._epochs.version,
                          partitions=len(placed), left_out=len(job.found.left_out))  # fmt: skip
            self._control("run")
            self._untold = False

    def _bounded(self, placed: list[Placed]) -> list[Placed]:
        """With `once`: up to the last stable offsets of the start."""
        job = self._job
        if not placed and not job.found.left_out:
            raise ConfigError(
                "there is nothing to copy: no topic of the source matches",
                where=f"flow {job.flow.name}",
                evidence=f"topics = {list(job.flow.topics)}",
                hint="see what there is: drkit replicate --dry-run",
            )
        at = [TopicPartition(p.lease.source_topic, p.lease.partition) for p in placed]
        if job.ends is None:
            job.ends = list_offsets(self._source, at, "latest", committed=True)
        return [
            Placed(replace(p.lease, end=job.ends[a]), p.leader)
            for p, a in zip(placed, at, strict=True)
            if a in job.ends
        ]

    def _epoch_ended(self, reports: list[Report]) -> None:
        """Called by Spark's thread between two epochs."""
        self._progress.epoch_ended(reports)
        last = self._job.once and self._job.all_copied()
        self._epochs.epoch_ended(reports, last=last)
        if last:
            self._finished.set()
        self._between_epochs.set()

    def _watch(self, query: StreamingQuery, stop: threading.Event) -> None:
        last = monotonic()
        while not stop.is_set() and not self._finished.is_set():
            stop.wait(_WATCH_SECONDS)
            self._lease.check()
            if not query.isActive:
                raise cause_of(query, self._job.flow)
            if monotonic() - last >= self._job.flow.refresh_topics_interval_seconds:
                self._refresh()
                last = monotonic()

    def _refresh(self) -> None:
        """Look for news; a cluster that does not answer is no reason to end tasks that wait for it."""
        try:
            self._follow_events()
            if not self._job.once:
                self._look()
        except DrkitError as error:
            if not is_transient(error):
                raise
            observe.error(error, flow=self._job.flow.name)

    def _follow_events(self) -> None:
        """Tell and count what the tasks wrote; the driver's own events were told when they happened."""
        for key, body in self._state.load():
            if key.startswith("event/") and body is not None and body.get("partition", -1) >= 0:
                told = {k: v for k, v in body.items() if k not in {"kind", "at_ms"}}
                observe.event(body["kind"], level="warning", **told)

    def _end(self, query: StreamingQuery) -> None:
        """Let the tasks finish what is on its way, then end the query; seconds, whatever is broken."""
        if query.isActive and not self._finished.is_set():
            self._between_epochs.clear()
            if self._epochs.hold() and within(_GOODBYE_SECONDS, lambda: self._control("stop")):
                self._between_epochs.wait(_DRAIN_SECONDS)
        query.stop()
        within(_GOODBYE_SECONDS, self._follow_events)

    def _control(self, action: str) -> None:
        self._state.control(self._epochs.run_id, self._epochs.version, action)


def task_frame(job: FlowJob, source: Cluster, target: Cluster, state: StateTopic) -> TaskLease:
    """Everything about a task of this run but its number and its partitions.

    :raises DrkitError: the target does not tell its settings, or gives no producer id
    """
    expiration_ms = min(
        int(broker_config(target, broker.id)[_EXPIRATION].value or 0) for broker in target.brokers
    )
    ids = own_ids(target.settings, state)
    return TaskLease(
        flow=job.flow.name,
        run_id=f"{job.run_id}.{monotonic():.3f}",
        epoch=0,
        task=0,
        plan=0,
        producer_id=ids.current.id,
        producer_epoch=ids.current.epoch,
        own_producer_ids=ids.all,
        skip_producer_ids=reverse_ids(source, job.flow),
        map_topic=mapstore.topic_name(job.flow.source),
        state_topic=state.name,
        # The deadline of every writer stays far below the expiration.
        epoch_seconds=min(job.flow.epoch_seconds, expiration_ms / 1000 / _LEASE_SHARE),
        grace_seconds=GRACE_SECONDS,
        live_max_age_ms=expiration_ms // _LEASE_SHARE,
        partitions=(),
    )


def _placed(found: Round, buckets: int) -> Iterable[Placed]:
    for topic in found.copied.values():
        for partition, at in topic.source.partitions.items():
            yield Placed(_lease(topic, partition, buckets), at.leader if at.leader is not None else -1)


def _lease(topic: CopiedTopic, partition: int, buckets: int) -> PartitionLease:
    return PartitionLease(
        topic.source.name,
        str(topic.source.topic_id),
        topic.target_name,
        topic.target_id,
        partition,
        bucket_of(topic.source.name, partition, buckets),
        compacted=topic.compacted,
        max_message_bytes=topic.max_message_bytes,
    )


def within(seconds: float, function: Callable[[], object]) -> bool:
    """Run something that may hang on a dead cluster; False when it did not end in time or failed."""
    done = threading.Event()

    def run() -> None:
        try:
            function()
        except DrkitError as error:
            observe.error(error)
        else:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return done.is_set()
