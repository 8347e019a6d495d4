"""One flow at work: its lease, its topics, its epochs, and what runs beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
import threading
from typing import Any, Final
from uuid import UUID

from drkit import observe
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import WHO_WRITES
from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.report import note_speed
from drkit.errors import Refused
from drkit.flow_state.copied_topics import FrozenTopics, written_of
from drkit.flow_state.creation import ensure_offset_map, note_configuration, restore, to_copy_again
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.producer_ids import own_ids, own_on_record
from drkit.flow_state.records import (
    ControlKeyRecord,
    ControlRecord,
    CutRecord,
    EventRecord,
    GenerationRecord,
    LeaseRecord,
    OffsetMapRecord,
    RoleRecord,
    StandbyRecord,
)
from drkit.flow_state.state import StateChange
from drkit.flow_state.topic import StateTopic
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import connections
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition
from drkit.pair.reverse_flow import OppositeFlows
from drkit.replicate.epochs import EpochLoop, Epochs, Report
from drkit.replicate.frame import task_frame
from drkit.replicate.once import Bound, bound_now, bounded, nothing_to_copy
from drkit.replicate.planner import PlacedPartition, Rates, placed_of
from drkit.replicate.side_jobs import SideJobs
from drkit.replicate.supervisor import survives
from drkit.spark.session import SharedSpark
from drkit.status.progress import Progress
from drkit.takeover.mm2_takeover import Takeover
from drkit.time_limit import within
from drkit.topic_sync.acl_sync import AclSync
from drkit.topic_sync.rules import TopicSyncResult, refuse_promoted
from drkit.topic_sync.sync import TopicSync

_OF_OTHERS: Final = frozenset({LeaseRecord.KEY, ControlRecord.KEY})
"""Keys whose older values are wrong by now; their writers renew them all the time."""


class InternalTopics:
    """Checks a flow's state topic and offset map for one run, the holder of its lease.

    Without one of them a flow would copy everything again after the records already copied. So it refuses to
    continue if one is missing, recreated (KIP-516), or has an unreadable record instead of one of drkit's.

    :param state: loaded
    :raises Refused: the copied offsets are unknown
    :raises DrkitError: the target does not answer
    """

    def __init__(self, target: Cluster, flow: FlowSettings, state: StateTopic) -> None:
        self._target, self._flow, self._state = target, flow, state
        self._map = offset_map_topic(flow.source)
        self._reported: dict[str, str] = {}
        state.records.refuse_damaged()
        if state.get(OffsetMapRecord) is None:
            self._refuse_lost_state()
        self._refuse_older_state()
        ensure_offset_map(target, flow, state)
        control = target.settings.control
        if control is not None and state.get(ControlKeyRecord) is None:
            state.put(ControlKeyRecord(wall_ms(), control.current.fingerprint))
        self._state_id = self._described()[state.name].topic_id

    def check(self) -> None:
        """Check that both topics exist and are the same as before.

        :raises Refused: one is missing or was recreated
        :raises DrkitError: the target does not answer
        """
        topics, state = self._described(), self._state.name
        self._refuse_other(state, topics.get(state), self._state_id, "the flow's state")
        recorded = self._state.get(OffsetMapRecord)
        assert recorded is not None  # noqa: S101  created or refused at the start
        self._refuse_other(self._map, topics.get(self._map), recorded.topic_id, "the offset map")

    def restore(self) -> None:
        """Report records that are not drkit's; rewrite a record of drkit that one of them hides.

        :raises DrkitError: the record cannot be written
        """
        records = self._state.records
        before, self._reported = self._reported, records.unreadable | records.forged
        for key, reason in sorted(self._reported.items() - before.items()):
            is_of_others = key in _OF_OTHERS or key.startswith(StandbyRecord.KEY)
            restored = not is_of_others and restore(self._state, key)
            observe.event(
                "internal_topic_unreadable", level="warning", flow=self._flow.name, topic=self._state.name,
                cluster=self._target.alias, key=key, reason=reason, restored=restored,
                hint=WHO_WRITES,
            )  # fmt: skip

    def _described(self) -> dict[str, TopicMetadata]:
        return describe_topics(self._target, [self._state.name, self._map])

    def _refuse_other(self, name: str, topic: TopicMetadata | None, expected: UUID, what: str) -> None:
        if topic is not None and topic.topic_id == expected:
            return
        raise Refused(
            "internal_topic_deleted",
            where=f"{name} on {self._target.alias}",
            evidence=f"it had the id {expected}, now {topic.topic_id if topic else 'it is missing'}",
            hint=to_copy_again(self._target, self._flow, self._map, self._state.name),
            what=what,
        )

    def _refuse_older_state(self) -> None:
        """Refuse a state without the newest failover: producers own topics that it still has as copies."""
        with connections("journal", self._target.settings) as (raw,):
            raw.loop.run(raw.connect)
            reader = JournalReader(raw, self._flow.source, tolerant=True)
            history = raw.loop.run(reader.read_existing)
        if why := history.lost_state(self._state.records):
            raise Refused("state_younger", where=self._flow.name, evidence=why, target=self._target.alias)

    def _refuse_lost_state(self) -> None:
        """Refuse a flow whose offset map has records, while its state has no trace of a run."""
        offset_map = describe_topics(self._target, [self._map]).get(self._map)
        if offset_map is None:
            return
        partitions = [TopicPartition(self._map, number) for number in offset_map.leaders]
        records = sum(list_offsets(self._target, partitions, "latest").values())
        if not records:
            return  # created a moment ago by a run that was killed before it recorded it
        raise Refused(
            "state_deleted",
            where=f"{self._state.name} on {self._target.alias}",
            evidence=f"it knows no offset map, but {self._map} is there, written to {records} times",
            hint=to_copy_again(self._target, self._flow, self._map, self._state.name),
        )


_AGAIN_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 30.0


class TaskEvents:
    """Reports once each event that copy tasks write to the state topic, over all attempts of one run.

    The driver's own events have no partition; they are reported when they happen.

    :param on_stopped: gets each partition that a task has stopped, with the reason, before its epoch ends
    """

    def __init__(self, flow: str, on_stopped: Callable[[TopicPartition, str], object]) -> None:
        self._flow, self._on_stopped = flow, on_stopped
        self._next: int | None = None
        """First offset of the state topic that is not reported yet, or None if all is of earlier runs."""

    def follow(self, state: StateTopic) -> None:
        """Read the state up to the first open transaction, and report every event that is read later.

        After a failed attempt this includes the events that it left unread.

        :raises DrkitError: the topic cannot be read
        """
        state.on_read = self._report
        state.load_decided()
        if self._next is None:
            self._next = state.position

    def finish(self, target: Cluster, state: StateTopic, stop: threading.Event) -> None:
        """Report the remaining events after the last epoch of a copy with an end."""
        if not within(_LAST_SECONDS, lambda: _read_all(state, stop)):
            observe.event("events_not_read", level="warning", flow=self._flow, topic=state.name,
                          cluster=target.alias, hint="see them with: drkit status")  # fmt: skip

    def _report(self, offset: int, change: StateChange) -> None:
        if self._next is None or offset < self._next:
            return
        self._next = offset + 1
        event = change.record
        if isinstance(event, EventRecord) and event.partition >= 0:
            fields = {"flow": self._flow, "topic": event.topic, "partition": event.partition}
            observe.event(event.kind, level="warning", **{**fields, **event.fields})
            if event.fields.get("stopped"):
                tp = TopicPartition(event.topic, event.partition)
                self._on_stopped(tp, str(event.fields.get("reason", event.kind)))


def _read_all(state: StateTopic, stop: threading.Event) -> None:
    """Read the whole topic, also records that an open transaction hides: the lease has short ones."""
    while not state.load_decided() and not stop.wait(_AGAIN_SECONDS):
        pass


_WATCH_SECONDS: Final = 0.1
_OPPOSITE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 1.5
_GOODBYE_SECONDS: Final = 0.5


@dataclass
class FlowMemory:
    """A flow, and what outlives one attempt to run it."""

    clusters: tuple[ClusterSettings, ClusterSettings]
    flow: FlowSettings
    workshop: SharedSpark
    run_id: str
    """Of this process; the lease on the target carries it."""
    _: KW_ONLY
    once: bool = False
    """End when everything that was on the source at the start is copied."""
    standby: bool = False
    """Wait for the lease for as long as another run holds it."""
    both_ways: bool = False
    """The process runs the flow in the other direction, too."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the configuration."""
    rates: Rates = field(default_factory=Rates, init=False)
    events: TaskEvents = field(init=False)
    found: TopicSyncResult = field(default_factory=TopicSyncResult, init=False)
    bound: Bound | None = field(default=None, init=False)
    """With `once`: where to end, as seen at the first attempt's start."""
    groups: dict[str, Any] = field(default_factory=dict, init=False)
    """With `once`: what the last checkpoint round did for the groups."""
    progress: Progress | None = field(default=None, init=False)
    leases: Callable[[], list[PartitionAssignment]] = field(default=list, init=False)
    cut: EpochLoop | None = field(default=None, init=False)
    """Epochs of the previous attempt whose tasks may still be running."""

    def __post_init__(self) -> None:
        self.events = TaskEvents(self.flow.name, self._stopped)

    def _stopped(self, at: TopicPartition, reason: str) -> None:
        if self.progress is not None:
            self.progress.stopped(at, reason)

    def all_copied(self) -> bool:
        """With `once`: every partition has reached its end or is left alone."""
        bound, progress = self.bound, self.progress
        return bound is not None and progress is not None and bound.is_reached(progress.totals)


class FlowRun:
    """One life of the epochs, between taking the lease and giving it back."""

    def __init__(
        self,
        job: FlowMemory,
        source: Cluster,
        target: Cluster,
        state: StateTopic,
        lease: FlowLease,
        opposite: OppositeFlows,
    ) -> None:
        state.load()
        self._internal = InternalTopics(target, job.flow, state)
        note_configuration(state, job.flow, job.files)
        self._job = job
        self._source, self._target, self._state = source, target, state
        self._lease, self._opposite, self._flow = lease, opposite, job.flow
        self._sync, self._acls = self._syncs()
        self._ids = own_ids(target.settings, job.flow, state)
        self._frozen = FrozenTopics(job.flow.name, state.records, self._ids)
        frame = task_frame(job.flow, job.run_id, target, state, self._ids)
        takes_over = job.flow.takeover_from_mm2
        self._takeover = Takeover(source, target, job.flow, state, self._ids) if takes_over else None
        self._epochs = Epochs(frame, job.flow.tasks, job.rates, until=lambda: lease.until)
        job.leases = lambda: self._epochs.leases
        self._progress = job.progress = job.progress or Progress(job.flow, source, target)
        self._promoted = self._waiting = frozenset[str]()
        """Topics that the opposite flow has promoted, before their return: by state, and at the last look."""
        totals = self._progress.totals.groups
        self._side_jobs = SideJobs(
            job.workshop, (source, target), state, totals, lambda: job.flow, lambda: self._waiting
        )
        self._finished = threading.Event()
        self._nothing_reported = self._plan_unreported = False
        """Untold: the plan changed, and the running tasks do not know it yet."""

    def run(self, stop: threading.Event) -> None:
        """Start the epochs, which wait for Spark, and watch them to their end."""

        def pause(seconds: float) -> bool:
            self._lease.check()
            return stop.wait(seconds)

        # They copy what only this attempt's tasks leave out.
        while self._job.cut is not None and self._job.cut.has_tasks and not pause(_WATCH_SECONDS):
            pass
        self._opposite.wait_until_allowed(self._ids.all, pause)
        if stop.is_set():
            return
        self._epochs.reframe(skip=self._opposite.ids, bulk=self._ids.bulk)
        if self._takeover is not None:
            self._takeover.begin(pause)
        self._read_promoted()
        self._look_at_topics()
        if not (self._job.once and self._job.all_copied()):
            self._copy(stop)
        if self._job.once and not stop.is_set():
            self._job.groups = self._side_jobs.finish(stop)

    def _copy(self, stop: threading.Event) -> None:
        job = self._job
        job.cut = loop = EpochLoop(job.workshop, self._epochs, job.clusters, job.flow, self._epoch_ended)
        self._lease.outlive_orphans(stop)
        loop.start()
        try:
            with self._side_jobs.running(once=job.once):
                self._watch(loop, stop)
        finally:
            self._end(loop)
        if self._finished.is_set():
            job.events.finish(self._target, self._state, stop)

    def _syncs(self) -> tuple[TopicSync, AclSync]:
        """The syncs of the source's topics and ACLs, by the flow's current settings."""
        opposite, context = self._opposite, (self._source, self._target, self._flow, self._state)
        writer = self._job.clusters[1].with_client(self._flow.target_producer)
        unexplained = partial(opposite.unexplained, both_ways=self._job.both_ways)
        topics = TopicSync(*context, claims=opposite.claims, unexplained=unexplained, held=opposite.held)
        return topics, AclSync(*context, opposite=opposite, writer=writer)

    def _look_at_topics(self) -> None:
        """Look at both clusters' topics and change the plan when it must change."""
        job = self._job
        refuse_promoted(job.flow, self._state.records)
        if self._flow is not job.flow:  # the configuration changed
            self._flow = job.flow
            self._sync, self._acls = self._syncs()
        job.found = self._sync.look()
        self._acls.look_when_due({*job.found.copied, *job.found.left_out})
        if self._takeover is not None:
            self._takeover.take(job.found)
        cuts, written = self._state.all(CutRecord), written_of(self._state.records)
        placed = list(placed_of(job.found, job.flow.buckets, cuts, written))
        if job.once:
            placed = self._bounded(placed)
        if not placed and not self._nothing_reported:
            self._nothing_reported = True
            observe.event("nothing_to_copy", level="warning", flow=job.flow.name,
                          topics=list(job.flow.topics), left_out=len(job.found.left_out))  # fmt: skip
        if self._epochs.update(placed):
            self._plan_unreported = True
        self._report_plan()

    def _report_plan(self) -> None:
        if self._plan_unreported:
            partitions, left_out = len(self._epochs.leases), len(self._job.found.left_out)
            observe.event("plan_changed", flow=self._job.flow.name, plan=self._epochs.version,
                          partitions=partitions, left_out=left_out)  # fmt: skip
            self._control("run")
            self._plan_unreported = False

    def _bounded(self, placed: list[PlacedPartition]) -> list[PlacedPartition]:
        """Bound a copy with `once` by the last stable offsets at the start."""
        job = self._job
        if not placed and not job.found.left_out:
            raise nothing_to_copy(job.flow)
        job.bound = job.bound or bound_now(self._source, placed, self._epochs.skips)
        return bounded(placed, job.bound.ends)

    def _epoch_ended(self, reports: list[Report]) -> None:
        """Called by the epochs' thread between two of them."""
        topics = None if self._job.once else self._state.records.readable(GenerationRecord)
        self._progress.epoch_ended(reports, topics)
        note_speed(self._state, reports)
        last = self._job.once and self._job.all_copied()
        self._epochs.epoch_ended(reports, last=last)
        if last:
            self._finished.set()

    def _watch(self, loop: EpochLoop, stop: threading.Event) -> None:
        refreshed_at = opposite_due = monotonic()
        flow = self._flow
        while not stop.is_set() and not self._finished.is_set():
            stop.wait(_WATCH_SECONDS)
            self._lease.check()
            if not (loop.is_active or self._finished.is_set()):
                raise loop.failure()
            if loop.waits_for_renewal():
                self._lease.renew_soon()
            if self._epochs.fit(self._job.workshop.slots) or (loop.is_partly_over() and self._epochs.anew()):
                self._plan_unreported = True
                survives(self._report_plan, flow.name)
            due = monotonic() - refreshed_at >= self._job.flow.refresh_topics_interval_seconds
            if self._frozen.changed(self._state.records):
                survives(self._leave_frozen, flow.name)
                due = True
            due |= self._promoted != self._waiting
            if due or flow is not self._job.flow:
                flow = self._job.flow
                survives(self._refresh, flow.name)
                refreshed_at = monotonic()
            if monotonic() >= opposite_due:
                is_followed = survives(self._follow_opposite, flow.name)
                opposite_due = monotonic() + (_OPPOSITE_SECONDS if is_followed else _RETRY_SECONDS)

    def _leave_frozen(self) -> None:
        """Drop topics that a failover has frozen from the plan before the slow look: the failover waits."""
        if self._job.once:
            return  # such a copy ends when all of its plan is copied
        if self._epochs.leave(self._state.records.readable(RoleRecord)):
            self._plan_unreported = True
        self._report_plan()

    def _refresh(self) -> None:
        self._internal.check()
        self._follow_events()
        self._opposite.find()
        self._read_promoted()
        if not self._job.once:
            self._look_at_topics()

    def _read_promoted(self) -> None:
        self._promoted = self._waiting = frozenset(self._opposite.promoted())

    def _follow_opposite(self) -> None:
        """Skip the opposite flow's producers and declare that; ask it before new producer ids are used."""
        self._follow_events()
        self._opposite.follow()
        self._promoted = frozenset(self._opposite.promoted())
        ids = own_on_record(self._state.records)
        if set(ids) != set(self._ids.all):
            self._opposite.find()
            if self._opposite.allow(ids):
                self._ids = self._ids.with_bulk(self._state.records)
        if self._epochs.reframe(skip=self._opposite.ids, bulk=self._ids.bulk):
            observe.event("plan_changed", flow=self._job.flow.name, plan=self._epochs.version,
                          skipped_producers=len(self._opposite.ids))  # fmt: skip
            self._control("run")
        self._opposite.declare(self._epochs.skips)

    def _follow_events(self) -> None:
        """Read new records; :class:`TaskEvents` reports the tasks' events.

        An open transaction of another client stops no copy: a run that freezes the flow fences its writers.
        """
        if self._state.load_decided():
            self._internal.restore()

    def _end(self, loop: EpochLoop) -> None:
        """Let the tasks drain in-flight batches, then end the epochs; seconds, whatever is broken."""
        may_copy = loop.is_active and not self._finished.is_set() and self._epochs.hold()
        if may_copy and self._lease.is_held and within(_GOODBYE_SECONDS, lambda: self._control("stop")):
            loop.wait(_DRAIN_SECONDS)
        loop.end()
        within(_GOODBYE_SECONDS, self._follow_events)

    def _control(self, action: str) -> None:
        self._state.put(ControlRecord(self._epochs.run_id, self._epochs.version, action))
