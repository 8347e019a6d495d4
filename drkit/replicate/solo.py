"""A replicator without Spark: one flow in one process.

It has the lease, topics, state, copy task, heartbeats and checkpoint rounds of ``drkit replicate``, but one
task copies all partitions, and the topics are listed once, at the start. Used by chaos scenarios and tests:
``python -m drkit.replicate.solo [FILE]`` reads the settings from a file, or as JSON from standard input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
import json
from pathlib import Path
import signal
import sys
import threading
import time
from typing import Final
import uuid

from drkit import observe
from drkit.checkpoints.group_ledger import promoted_topics
from drkit.checkpoints.round import CheckpointTask
from drkit.checkpoints.shard import Shard
from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings, load
from drkit.copy_task.copier import copy_task
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.copy_task.report import TaskReport
from drkit.errors import DrkitError, Failed
from drkit.flow_state.copied_topics import known_of, written_of
from drkit.flow_state.creation import ensure_offset_map, ensure_state_topic, note_clusters, note_configuration
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.producer_ids import own_ids
from drkit.flow_state.records import CheckpointsRecord, ClustersRecord, ControlRecord, CutRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import listed_groups
from drkit.mm2_topics.checkpoint_topic import ensure_checkpoint_topic
from drkit.mm2_topics.heartbeats import HeartbeatEmitter
from drkit.pair.reverse_flow import OppositeFlows
from drkit.replicate.frame import task_frame
from drkit.replicate.planner import placed_of
from drkit.status.paired import PairedCollector
from drkit.topic_sync.acl_sync import AclSync
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topic_sync.sync import TopicSync

_EPOCH_SECONDS: Final = 3600.0
_AGAIN: Final = "again"
_NEXT_EPOCH_AFTER: Final = frozenset({"time", "expired", "plan", _AGAIN})
_TOPICS_SECONDS: Final = 0.05
_PAUSE_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 2.0


class SoloReplicator:
    """One run of a flow."""

    on_report: Callable[[TaskReport], object] = staticmethod(lambda _report: None)
    """Receives the report of each copy task that ends."""

    def __init__(self, settings: Settings, flow: FlowSettings) -> None:
        self._settings, self._flow = settings, flow
        sides = flow.source, flow.target
        self._source, self._target = (Cluster.connect(settings.cluster(alias)) for alias in sides)
        ensure_state_topic(self._target, flow)
        self._state = StateTopic(self._target.settings, flow.source)
        self._state.load()
        note_clusters(self._state, ClustersRecord(self._source.cluster_id, self._target.cluster_id))
        self._run_id = uuid.uuid4().hex[:12]
        self._lease = self._new_lease()
        self._checkpoints = CheckpointTask(self._source.settings, self._target.settings, flow)
        self._collector = PairedCollector(settings, flow, scan_up_to=0, groups=False)
        # The main thread never waits for this event: the signal handler that sets it runs there.
        self._stop = threading.Event()
        self._plan, self._held = 1, frozenset[str]()

    def run(self) -> None:
        """Copy until SIGTERM, which drains in-flight batches, or until this run is fenced.

        :raises DrkitError: a cluster does not answer, or another run holds the lease
        """
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        self._take_lease()
        self._state.load()
        ensure_offset_map(self._target, self._flow, self._state)
        note_configuration(self._state, self._flow, self._settings.fingerprints(self._flow))
        heartbeats = HeartbeatEmitter(self._source.settings, self._flow)
        heartbeats.start()
        topics = self._sync_topics()
        self._held = self._held_topics()
        self._state.put(ControlRecord(self._run_id, self._plan, "run"))
        ensure_checkpoint_topic(self._target, self._flow.mm2_topics.checkpoints(self._flow.source))
        threading.Thread(target=self._end_task_on_stop, daemon=True).start()
        rounds = [
            threading.Thread(target=self._repeat, args=(work,), daemon=True)
            for work in (self._follow_failovers, self._write_checkpoints, self._note_source_ends)
        ]
        for thread in rounds:
            thread.start()
        while not self._stop.is_set() and self._copy(topics) in _NEXT_EPOCH_AFTER:
            self._take_lease()
        if self._stop.is_set():
            for thread in rounds:
                thread.join(_JOIN_SECONDS)
        heartbeats.stop()
        self._lease.release()

    def _take_lease(self) -> None:
        """Acquire the flow's lease; an attempt that fails is repeated, as ``drkit replicate`` does."""
        while not self._lease.is_held and not self._stop.is_set():
            try:
                self._lease.release()
                self._lease = self._new_lease()
                self._lease.acquire(self._stop.is_set)
            except Failed as error:
                observe.error(error, flow=self._flow.name)
                time.sleep(_PAUSE_SECONDS)
                # A consumer may never get an answer from a leader that did not know the new topic yet.
                self._state = StateTopic(self._target.settings, self._flow.source)

    def _new_lease(self) -> FlowLease:
        return FlowLease(self._target.settings, self._flow, self._state, self._run_id)

    def _sync_topics(self) -> TopicSyncResult:
        flow = self._flow
        opposite = OppositeFlows(self._source, self._target, flow, self._state, 0.0)
        if flow.has_opposite_in(self._settings.flows):
            opposite.find()
        sync = TopicSync(self._source, self._target, flow, self._state, held=opposite.held)
        topics = sync.look()
        # The topics are listed only once, so the list must have the topic of heartbeats.
        while flow.heartbeats_replication and not any(map(flow.is_heartbeats, topics.copied)):
            time.sleep(_TOPICS_SECONDS)
            topics = sync.look()
        AclSync(self._source, self._target, flow, self._state, opposite=opposite).look_when_due(topics.copied)
        return topics

    def _assign(self, topics: TopicSyncResult) -> TaskAssignment:
        ids = own_ids(self._target.settings, self._flow, self._state)
        frame = task_frame(self._flow, self._run_id, self._target, self._state, ids)
        plan, held = self._plan, self._held_topics()
        cuts, written = self._state.all(CutRecord), written_of(self._state.records)
        placed = placed_of(topics, self._flow.buckets, cuts, written)
        partitions = tuple(p.lease for p in placed if p.lease.source_topic not in held)
        return replace(
            frame, run_id=self._run_id, plan=plan, epoch_seconds=_EPOCH_SECONDS, partitions=partitions
        )

    def _copy(self, topics: TopicSyncResult) -> str:
        try:
            assignment = replace(self._assign(topics), held_until=self._lease.until)
            report = copy_task(assignment, self._source.settings, self._target.settings, self._flow)
        except DrkitError as error:  # a cluster does not answer, or drkit lacks a right for now
            observe.error(error, flow=self._flow.name)
            time.sleep(_PAUSE_SECONDS)
            return _AGAIN
        self.on_report(report)
        return report.ended

    def _end_task_on_stop(self) -> None:
        self._stop.wait()
        if self._lease.is_held:  # otherwise the record would end the tasks of a newer run
            self._state.put(ControlRecord(self._run_id, self._plan, "stop"))

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except DrkitError as error:
                observe.error(error, flow=self._flow.name)
            self._stop.wait(_PAUSE_SECONDS)

    def _held_topics(self) -> frozenset[str]:
        roles = self._state.all(RoleRecord).items()
        return frozenset(topic for topic, role in roles if role.is_frozen or role.is_promoted)

    def _follow_failovers(self) -> None:
        """Change the plan when a failover holds topics, or has released them; the copy task ends then."""
        self._state.load()
        if (held := self._held_topics()) != self._held:
            self._held, self._plan = held, self._plan + 1
            self._state.put(ControlRecord(self._run_id, self._plan, "run"))

    def _write_checkpoints(self) -> None:
        self._state.load()
        records, flow = self._state.records.copy(), self._flow
        topic, promoted = flow.mm2_topics.checkpoints(flow.source), frozenset(promoted_topics(records))
        groups = tuple(sorted(filter(flow.group_filter.accepts, listed_groups(self._source.settings))))
        shard = Shard(0, flow.source, groups, known_of(records), topic, sync=True, promoted=promoted)
        report = self._checkpoints.run(shard)
        if not report.error:
            now = wall_ms()
            self._state.put(CheckpointsRecord(now, now, verdicts=report.verdicts))

    def _note_source_ends(self) -> None:
        self._collector.look()
        self._collector.remember_source()


def main() -> None:
    """Run the first flow of the settings."""
    observe.setup()
    settings = load(Path(sys.argv[1])) if sys.argv[1:] else Settings.model_validate(json.load(sys.stdin))
    SoloReplicator(settings, settings.flows[0]).run()


if __name__ == "__main__":
    main()
