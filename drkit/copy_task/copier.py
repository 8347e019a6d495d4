"""The copy task: one epoch of copying a lease's partitions, start to end.

Runs in a Spark executor's Python worker. Connections stay open in the worker from epoch to epoch;
everything else is resolved from the target again, so the previous worker does not matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
import math
from typing import Any, Final

from drkit.allocator import keep_memory
from drkit.clock import boottime
from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.links import WorkerLinks
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.report import TaskReport, report_of
from drkit.copy_task.source.fetching import Fetcher
from drkit.copy_task.source.leaders import LeaderWatch
from drkit.copy_task.target.bulk import BulkAppender
from drkit.copy_task.target.deleted import forget_deleted
from drkit.copy_task.target.left_open import end_on_map
from drkit.copy_task.target.live import LiveAppender
from drkit.copy_task.target.resolver import PartitionResolver
from drkit.copy_task.worker_links import keep_links, take_links
from drkit.errors import DrkitError, Failed
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.names import bulk_transactional_id, map_transactional_id
from drkit.flow_state.records import ControlRecord, LeaseRecord
from drkit.kafka.codes import error_name
from drkit.kafka.raw import Future, RawError
from drkit.kafka.reading.log_tail import LogTail, NoAnswerYet
from drkit.kafka.requests import LATEST, list_offsets
from drkit.kafka.transactions import Transactions
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, pairs
from drkit.offset_map.reading import read_on
from drkit.offset_map.writer import MapTaken, MapWriter
from drkit.offsets import Intent
from drkit.wire import Record

_CONTROL: Final = ControlRecord.key().encode()
_LEASE: Final = LeaseRecord.key().encode()
_POLL_SECONDS = 0.4
_LOOK_BACK = 1000
"""Offsets before the end of the state topic at which a task begins to read: minutes, where seconds count."""


@dataclass(slots=True)
class ReadProgress:
    """A task's progress in the flow's state topic."""

    tail: LogTail | None = None
    """Its reader, or None before the first look."""
    fresh: dict[bytes, Record] = field(default_factory=dict)
    """The newest control record and the newest lease record, if not yet applied."""
    end: int = 0
    """End of the topic at the first look: records before it may be older than this task."""
    complete_at: float | None = None
    """Time of the request of the last look that reached the end of the topic, or None before that."""


async def until_renewed(task: TaskContext) -> None:
    """If the lease in the assignment has expired, wait for a renewal, for at most the lease time.

    Spark restarts a task with its original arguments, even late in an epoch. This function writes nothing.
    """
    reading, until = ReadProgress(), task.started + (task.lease.lease_seconds or 0.0)
    while task.expired and not task.ending and boottime() < until:
        await _look(task, reading)


async def follow_control(task: TaskContext) -> None:
    """Poll the state topic until the epoch ends or the control record ends it."""
    reading = ReadProgress()
    while not task.ending:
        await _look(task, reading)


async def _look(task: TaskContext, reading: ReadProgress) -> None:
    has_more = False
    try:
        has_more = await _poll(task, reading)
    except (RawError, KeyError, NoAnswerYet):
        task.state_topic = None
    except DrkitError:  # the topic was created again, or may not be read
        task.state_topic = reading.tail = reading.complete_at = None
    if not has_more and not task.ending:
        await task.loop.sleep(_POLL_SECONDS)


async def _poll(task: TaskContext, reading: ReadProgress) -> bool:
    """Read and apply the next records; return whether more can be read at once.

    In a large flow the records to read are tens of megabytes: with a pause after each response a lease
    would expire before its renewals are read.
    """
    requested_at = boottime()
    tail = reading.tail = reading.tail or await _begin(task, reading)
    old_end, is_complete = tail.end, await tail.look(task.links.target)
    take(task, reading)
    if is_complete:
        reading.complete_at = requested_at
    return tail.end > old_end and not is_complete


async def _begin(task: TaskContext, reading: ReadProgress) -> LogTail:
    """Return a reader that begins before the end; it also reads past open transactions of others."""
    topic = await task.internal(task.lease.state_topic, refresh=task.state_topic is None)
    target, tp, signatures = task.links.target, TopicPartition(task.lease.state_topic, 0), task.signatures
    latest = (await list_offsets(target, topic.leaders[0].node, {tp: LATEST}, committed=False))[tp]
    if latest.error:
        raise NoAnswerYet(error_name(latest.error))

    def keep(record: Record) -> None:
        why = signatures.refused(record.key, record.value, record.headers, record.timestamp)
        if record.key in {_CONTROL, _LEASE} and not why:
            reading.fresh[record.key] = record

    tail = LogTail(target, tp, keep, signatures=signatures, topic=topic)
    reading.end, tail.next_offset = latest.offset, max(0, latest.offset - _LOOK_BACK)
    return tail


def take(task: TaskContext, reading: ReadProgress) -> None:
    """Apply the newest control record and the newest lease record of one read."""
    newest, reading.fresh = reading.fresh, {}
    if (control := newest.get(_CONTROL)) is not None and control.value is not None:
        obey(task, control.value, past=control.offset < reading.end)
    if (lease := newest.get(_LEASE)) is not None:
        heed(task, lease.value, reading.complete_at, past=lease.offset < reading.end)


def heed(task: TaskContext, value: bytes | None, before: float | None, *, past: bool) -> None:
    """Continue to write if this task's run has renewed the lease; stop if another run took it.

    :param value: the record, or None if the lease was given back
    :param before: time of a look that reached the end of the topic without this record, or None
    :param past: the record may be older than this task, so one of another run proves nothing
    """
    try:
        run = LeaseRecord.decode(value).run_id if value is not None else ""
    except Malformed:
        return
    if run != task.lease.driver:
        if not past:
            task.superseded()
    elif before is not None:
        task.renewed(before)


def obey(task: TaskContext, value: bytes, *, past: bool) -> None:
    """End the epoch on command of the control record.

    :param past: the record may be older than this task, so one of another run proves nothing
    """
    try:
        control = ControlRecord.decode(value)
    except Malformed:
        return
    if control.run_id != task.lease.run_id:
        if not past:
            task.finish("superseded")  # another run replicates this flow now
    elif control.action == "stop":
        task.finish("stop")
    elif control.plan > task.lease.plan:
        task.finish("plan")


_MARK_SECONDS = 15.0
_OPEN_MS = 30_000
"""How long a bulk transaction stays open after its task was lost; readers wait this long."""
_DRAIN_SECONDS = 5.0
_WATCH_SECONDS = 0.2
_START_SECONDS = 0.02
_GIVE_UP_SECONDS = 2.0


def copy_task(
    lease: TaskAssignment, source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> TaskReport:
    """Copy the lease's partitions until the epoch ends.

    Safe to run again, late, or twice at once: see :mod:`drkit.copy_task.target.live` and
    :mod:`drkit.copy_task.target.bulk`.

    :raises ClusterUnreachable: a cluster does not answer at the start
    :raises Failed: the offset map cannot be read or written
    """
    keep_memory()
    links = take_links(flow, source, target)
    try:
        report: TaskReport = links.loop.run(_copy, lease, flow, links)
    except BaseException:
        links.close()
        raise
    keep_links(flow, links, idle=not links.target.gate.closed)
    return report


async def _copy(lease: TaskAssignment, flow: FlowSettings, links: WorkerLinks) -> TaskReport:
    links.open_gates()
    await links.connect()
    buckets = sorted({p.bucket for p in lease.partitions})
    names = {b: bulk_transactional_id(flow.source, flow.target, b) for b in buckets}
    task = TaskContext(
        lease=lease,
        flow=flow,
        links=links,
        partitions=[PartitionCopy(p) for p in lease.partitions],
        buckets={b: MapBucket(b, lease.map_topic) for b in buckets},
        transactions={b: Transactions(links.target, name, _OPEN_MS) for b, name in names.items()},
    )
    task.maps = {b: _map_writer(task, b) for b in buckets}
    await until_renewed(task)
    links.close_gates_at(task.deadline)
    return await CopyTask(task).run()


def _map_writer(task: TaskContext, bucket: int) -> MapWriter:
    return MapWriter(
        Transactions(task.links.target, map_transactional_id(task.flow.source, task.flow.target, bucket)),
        task.buckets[bucket],
        task.nonce,
        lambda again: task.internal(task.lease.map_topic, refresh=again),
        lambda: task.expired,
    )


class CopyTask:
    """Starts the parts of a copy task and waits for their end."""

    def __init__(self, task: TaskContext) -> None:
        self.task = task
        self._appenders: dict[int, LiveAppender] = {}
        self._source = LeaderWatch(task)
        self._fetchers: dict[int, Any] = {}
        self._bulk = [BulkAppender(task, b, t) for b, t in task.transactions.items()]
        self._parts: list[Any] = []
        task.offer = self._offer

    async def run(self) -> TaskReport:
        """One epoch."""
        task = self.task
        starting, given_up = task.loop.spawn(self._start), math.inf
        while not starting.is_done:
            if task.ending:  # the other tasks end: nothing copies for as long as this one starts
                given_up = min(given_up, boottime() + _GIVE_UP_SECONDS)
            if task.expired or boottime() > given_up:  # pending requests get no response from now on
                task.finish("expired")
                task.links.close_gates_at(min(task.deadline, boottime()))
                return report_of(task, self._source.health, boottime() - task.started)
            await task.changed.wait(_START_SECONDS)
        try:
            await starting
        except RawError:
            if not task.expired:
                raise
            task.finish("expired")
        startup, busy_seconds, looked_at, batches = boottime() - task.started, 0.0, boottime(), 0
        bounded = all(p.lease.end is not None for p in task.partitions)
        while not task.ending:
            if task.expired or task.seconds_left <= 0:  # an expired task reads no renewals
                task.finish("expired" if task.expired else "time")
                break
            self._follow_leaders()
            if bounded and all(p.done for p in task.partitions):
                task.finish("once")
            else:
                await task.changed.wait(min(_WATCH_SECONDS, max(0.001, task.seconds_left)))
            now = boottime()
            if task.counters.batches != batches:
                busy_seconds += now - looked_at
            looked_at, batches = now, task.counters.batches
        await self._drain()
        return report_of(task, self._source.health, startup, busy_seconds)

    async def _start(self) -> None:
        task = self.task
        # Lease renewals are read from the start: reading a large map takes longer than a lease.
        self._parts.append(task.loop.spawn(follow_control, task))
        fences: list[Callable[[], Awaitable[Any]]] = [t.begin_epoch for t in task.transactions.values()]
        fences += [w.take for w in task.maps.values()]
        await task.loop.together(lambda start: start(), [*fences, self._source.ask])
        await task.loop.together(self._take_map, task.maps)
        resolver = PartitionResolver(task)
        try:
            await resolver.begin()
        except MapTaken:  # its successor began while this one still read
            task.finish("fenced")
            return
        for part in (self._source.run, resolver.run, self._mark_often, *(b.run for b in self._bulk)):
            self._parts.append(task.loop.spawn(part))
        self._parts.append(task.loop.spawn(forget_deleted, task))

    async def _take_map(self, bucket: int) -> None:
        """Fence earlier writers of this bucket of the map, and read it."""
        task = self.task

        async def read() -> None:
            await end_on_map(task, bucket)
            topic = await task.internal(task.lease.map_topic, refresh=False)
            await read_on(task.links.target, topic, task.buckets[bucket])

        try:
            await task.patiently(lambda: task.maps[bucket].begin(read))
        except MapTaken:
            task.finish("fenced")

    def _follow_leaders(self) -> None:
        if self.task.failure is not None:
            raise self.task.failure
        for part in self._parts:
            if part.failed():
                raise part.exception
        for p in self.task.partitions:
            if p.leader >= 0 and p.leader not in self._fetchers:
                fetcher = Fetcher(self.task, p.leader, self._source)
                self._fetchers[p.leader] = fetcher
                self._parts.append(self.task.loop.spawn(fetcher.run))

    def _offer(self, p: PartitionCopy) -> None:
        """Stage waiting chunks, and pass them to the appender of the partition's leader."""
        task = self.task
        if p.state is CopyState.BULK:
            task.changed.set()
            return
        if p.state is not CopyState.LIVE:
            return
        if p.waiting:
            self._stage(p)
        if p.target_leader not in self._appenders:
            appender = LiveAppender(task, p.target_leader)
            self._appenders[p.target_leader] = appender
            self._parts.append(task.loop.spawn(appender.run))
        self._appenders[p.target_leader].offer(p)
        if p.waiting:
            task.changed.set()  # old records: bulk mode takes over when the pipeline is empty

    def _stage(self, p: PartitionCopy) -> None:
        task = self.task
        barrier = Future()
        intent = p.stage(task.live_floor_ms(CopyState.LIVE), task.nonce, barrier)
        if intent is not None:
            task.loop.spawn(self._intend, p, p.generation, intent, barrier)
        if p.deviation:
            task.deviate(p, p.deviation)

    async def _intend(self, p: PartitionCopy, generation: int, intent: Intent, barrier: Future) -> None:
        """Make an intent durable, then release its batches."""
        try:
            await self.task.write_map(p.lease.bucket, pairs([(p.key, intent)]))
        except Failed as error:
            p.claiming -= 1
            p.unanswered()  # the claim may still become durable, and would bind the next writer
            if generation == p.generation:
                p.reason = str(error)
                self.task.trouble(p)
            return
        p.claiming -= 1
        barrier.success(None)
        if generation == p.generation:
            self._offer(p)

    async def _mark_often(self) -> None:
        last = boottime()
        while not self.task.ending:
            await self.task.loop.sleep(_WATCH_SECONDS)
            if boottime() - last >= _MARK_SECONDS and not self.task.ending:
                last = boottime()
                # A mark only saves reading the log: copying continues while none can be written.
                with suppress(Failed):
                    await self.task.loop.together(self._mark, self.task.maps)

    async def _mark(self, bucket: int) -> None:
        """Write in the map how far the partitions of a bucket are, where that has changed. Raises Failed."""
        task = self.task
        marks = [
            (p, p.generation, m) for p in task.in_bucket[bucket] if (m := p.mark(task.nonce)) is not None
        ]
        if marks:
            await task.write_map(bucket, pairs((p.key, mark) for p, _, mark in marks))
        for p, generation, mark in marks:
            p.confirmed(mark, generation)

    async def _drain(self) -> None:
        """Wait for in-flight batches, confirm them in the map, and let the coroutines end."""
        task = self.task
        until = boottime() + (0.0 if task.expired else _DRAIN_SECONDS)
        for p in task.partitions:
            p.let_go()
        while boottime() < until and (
            any(p.in_flight or p.ready for p in task.partitions if p.state is CopyState.LIVE)
            or any(b.busy for b in self._bulk)
            or not all(e.is_done for e in task.events)
        ):
            await task.changed.wait(0.05)
        if not task.expired and task.ending != "fenced":
            with suppress(Failed):
                await task.loop.together(self._let_go, task.maps)
        task.changed.set()

    async def _let_go(self, bucket: int) -> None:
        """Write the last marks and a clean end: the next task then need not fence this one."""
        await self._mark(bucket)
        if not any(p.in_flight or p.ready or p.lost for p in self.task.in_bucket[bucket]):
            await self.task.maps[bucket].end()
