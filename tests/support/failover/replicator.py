"""A replicator without Spark, as one process: what `drkit replicate` runs in its driver and its tasks.

The same lease, topics, state, copy task, heartbeats and checkpoint rounds; only the query that deals out the
work is left out. The settings come from the file that is named, else as JSON on standard input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
import json
from pathlib import Path
import sys
import threading
import uuid

from drkit.checkpoints.shard import Shard
from drkit.checkpoints.summary import promoted_topics
from drkit.checkpoints.task import CheckpointTask
from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings, load
from drkit.copy_task.copier import copy_task
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.errors import DrkitError, Failed
from drkit.flow_state.copied_topics import known_of, written_of
from drkit.flow_state.creation import ensure_offset_map, ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.producer_ids import own_ids
from drkit.flow_state.records import (
    CheckpointsRecord,
    ClustersRecord,
    ControlRecord,
    CutRecord,
)
from drkit.flow_state.reverse_flow import OppositeFlows
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.members import listed_groups
from drkit.kafka.raw import RawError
from drkit.mm2_topics.checkpoint_topic import ensure_checkpoint_topic
from drkit.mm2_topics.heartbeats import HeartbeatEmitter
from drkit.replicate.frame import task_frame
from drkit.replicate.planner import placed_of
from drkit.status.paired import PairedCollector
from drkit.topic_sync.acl_sync import AclSync
from drkit.topic_sync.sync import TopicSync

_PAUSE_SECONDS = 0.5
_REFRESH_MS = 86_400_000


class Replicator:
    """One run of a flow."""

    def __init__(self, settings: Settings, flow: FlowSettings) -> None:
        self.settings, self.flow = settings, flow
        self.source, self.target = (Cluster.connect(settings.cluster(a)) for a in (flow.source, flow.target))
        ensure_state_topic(self.target, flow)
        self.state = StateTopic(self.target.settings, flow.source)
        self.state.load()
        ids = ClustersRecord(self.source.cluster_id, self.target.cluster_id)
        if self.state.get(ClustersRecord) != ids:
            self.state.put(ids)
        self.run_id = uuid.uuid4().hex[:12]
        self.lease = FlowLease(self.target.settings, flow, self.state, self.run_id)

    def run(self) -> None:
        """Copy until a signal ends the tasks."""
        self.lease.acquire()
        self.state.load()
        ensure_offset_map(self.target, self.flow, self.state)
        beats = HeartbeatEmitter(self.source.settings, self.flow)
        beats.start()
        opposite = OppositeFlows(self.source, self.target, self.flow, self.state, 0.0)
        if self.flow.has_opposite_in(self.settings.flows):
            opposite.find()
        sync = TopicSync(self.source, self.target, self.flow, self.state, held=opposite.held)
        found = sync.look()
        while self.flow.heartbeats_replication and not any(map(self.flow.is_heartbeats, found.copied)):
            threading.Event().wait(0.05)
            found = sync.look()
        AclSync(self.source, self.target, self.flow, self.state).look_when_due(found.copied)
        frame = task_frame(
            self.flow, self.run_id, self.target, self.state,
            own_ids(self.target.settings, self.flow, self.state),
        )  # fmt: skip
        cuts, written = self.state.all(CutRecord), written_of(self.state.records)
        partitions = tuple(p.lease for p in placed_of(found, self.flow.buckets, cuts, written))
        lease = replace(frame, plan=1, epoch_seconds=3600.0, partitions=partitions)
        self.state.put(ControlRecord(lease.run_id, 1, "run"))
        for work in (self._checkpoints, self._ends):
            threading.Thread(target=_again_and_again, args=(work(),), daemon=True).start()
        while self._copied(lease) == "expired":
            self._hold_again()
        beats.stop()
        self.lease.release()

    def _copied(self, lease: TaskAssignment) -> str:
        """How the task ended."""
        lease = replace(lease, held_until=self.lease.until)
        return copy_task(lease, self.source.settings, self.target.settings, self.flow).ended

    def _hold_again(self) -> None:
        """Take the lease again that could not be renewed, as the next attempt of `drkit replicate` does."""
        threading.Event().wait(_PAUSE_SECONDS)
        while not self.lease.is_held:
            try:
                self.lease.release()
                self.lease = FlowLease(self.target.settings, self.flow, self.state, self.run_id)
                self.lease.acquire()
            except Failed as error:  # the target wakes up only now
                sys.stderr.write(f"{error}\n")
                threading.Event().wait(_PAUSE_SECONDS)

    def _checkpoints(self) -> Callable[[], None]:
        task = CheckpointTask(self.source.settings, self.target.settings, self.flow)
        topic = self.flow.mm2_topics.checkpoints(self.flow.source)
        ensure_checkpoint_topic(self.target, topic)

        def once() -> None:
            self.state.load()
            state = self.state.records.copy()
            groups = tuple(
                sorted(g for g in listed_groups(self.source.settings) if self.flow.group_filter.accepts(g))
            )
            shard = Shard(
                0, self.flow.source, groups, known_of(state), topic, sync=True, refresh_ms=_REFRESH_MS,
                promoted=frozenset(promoted_topics(state)),
            )  # fmt: skip
            report = task.run(shard)
            if not report.error:
                now = wall_ms()
                self.state.put(CheckpointsRecord(now, now, verdicts=report.verdicts))

        return once

    def _ends(self) -> Callable[[], None]:
        collector = PairedCollector(self.settings, self.flow, scan_up_to=0, groups=False)

        def once() -> None:
            collector.look()
            collector.remember_source()

        return once


def _again_and_again(once: Callable[[], None]) -> None:
    while True:
        try:
            once()
        except (DrkitError, RawError) as error:
            sys.stderr.write(f"{error}\n")
        threading.Event().wait(_PAUSE_SECONDS)


def main() -> None:
    given = [Path(name) for name in sys.argv[1:]]
    settings = load(given[0]) if given else Settings.model_validate(json.load(sys.stdin))
    Replicator(settings, settings.flows[0]).run()


if __name__ == "__main__":
    main()
