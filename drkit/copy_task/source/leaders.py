"""React to errors of source partitions (continue elsewhere, wait, or stop), and look for new leaders.

The source is asked as long as a partition has no leader that answers. Each question goes to another broker,
and none waits for the one before: a broker that does not answer fetches may not answer questions either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drkit.clock import boottime
from drkit.copy_task.core.context import Signal, TaskContext
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.source.health import SourceHealth, UnavailablePartition
from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawError
from drkit.kafka.requests import EARLIEST, LATEST, TopicMetadata, list_offsets, metadata

_UNKNOWN_EPOCH = -1


async def source_trouble(task: TaskContext, p: PartitionCopy, partition_data: Any) -> str:
    """Handle a source partition that answered with an error or with a shorter history than the copied one.

    Returns why it still cannot be fetched; empty when it can be, or when it was stopped.

    :raises RawError: the source stopped answering meanwhile
    """
    code = partition_data.error_code
    if partition_data.diverging_epoch is not None:
        diverged = partition_data.diverging_epoch.end_offset
        ends = {"source_history_ends": diverged, "leader_epoch": partition_data.diverging_epoch.epoch}
        task.emit("source_diverged", p, copied_up_to=p.fetch_position, **ends)
        rewind(task, p, diverged, partition_data.diverging_epoch.epoch)
        return ""
    if code == codes.OFFSET_OUT_OF_RANGE:
        return await _out_of_range(task, p)
    if code == codes.TOPIC_AUTHORIZATION_FAILED:
        reason = "no permission to read the source topic"
        task.stop(p, "partition_stopped", reason, evidence=error_name(code))
        return ""
    if code in codes.NO_SUCH_TOPIC:
        topic = (await metadata(task.links.source, [p.source.topic]))[p.source.topic]
        if stop_if_gone(task, p, topic):
            return ""
    return error_name(code)


async def _out_of_range(task: TaskContext, p: PartitionCopy) -> str:
    """Handle an offset out of range: deleted by retention, lost with the source's tail, or a stale broker."""
    requested = leader, _, position = p.leader, p.generation, p.fetch_position
    start = (await list_offsets(task.links.source, leader, {p.source: EARLIEST}, committed=False))[p.source]
    end = (await list_offsets(task.links.source, leader, {p.source: LATEST}, committed=False))[p.source]
    if task.ending or requested != (p.leader, p.generation, p.fetch_position):
        return ""  # the answer is about a state that has passed
    if start.error or end.error:
        return error_name(start.error or end.error)
    if position < start.offset:
        fields = {"from_offset": position, "to_offset": start.offset, "lost_offsets": start.offset - position}
        if task.flow.on_source_gap == "stop":
            task.stop(p, "source_gap", "the source deleted records before they were copied", **fields)
        else:
            task.emit("source_gap", p, stopped=False, **fields)
            gap(task, p, start.offset)
        return ""
    if position > end.offset:
        task.emit("source_diverged", p, copied_up_to=position, source_history_ends=end.offset)
        rewind(task, p, end.offset, _UNKNOWN_EPOCH)
        return ""
    name = error_name(codes.OFFSET_OUT_OF_RANGE)
    return f"{name}, though offset {position} lies between {start.offset} and {end.offset}"


def gap(task: TaskContext, p: PartitionCopy, to_offset: int) -> None:
    """Continue at `to_offset`: the source has deleted all records before it."""
    if not p.pass_gap(to_offset):
        task.trouble(p)
    task.changed.set()


def rewind(task: TaskContext, p: PartitionCopy, upstream: int, epoch: int) -> None:
    """Continue at `upstream`, where the source's history ends now: it is shorter than the copied one."""
    task.trouble(p)
    p.rewind(upstream, epoch)


def stop_if_gone(task: TaskContext, p: PartitionCopy, topic: TopicMetadata) -> bool:
    """Stop a partition whose topic does not exist any more under its id; return whether it was stopped.

    :param topic: the source's current metadata for the topic's name
    """
    if topic.error in codes.NO_SUCH_TOPIC:
        evidence = error_name(topic.error)
        task.stop(p, "source_deleted", "the source topic was deleted", evidence=evidence)
        return True
    if topic.error or topic.topic_id == p.source_id:
        return False
    ids = {"old_id": str(p.source_id), "new_id": str(topic.topic_id)}
    task.stop(p, "source_recreated", "the source topic was deleted and created again", **ids)
    return True


class LeaderWatch:
    """Keeps the leaders of a task's source partitions, and reports the partitions that have no progress."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task
        self._wake = Signal(task.loop)
        self._asking: set[int | None] = set()
        self._next = self._answers = 0
        self._topics: Mapping[str, TopicMetadata] = {}
        """The source's last answer; empty when it did not answer."""
        task.links.unavailable.intersection_update(p.source for p in task.partitions)
        self.health = SourceHealth(task.flow.fetch_max_wait_ms / 1000, task.links.unavailable)

    async def run(self) -> None:
        """Track the leaders until the epoch ends."""
        task = self._task
        while True:
            await self._wake.wait(self.health.pause(boottime()))
            if task.ending:
                return
            now = boottime()
            for unavailable in self.health.round(task.partitions, now):
                self._report(unavailable)
            self.works([p for p in task.partitions if p.done and p.state is not CopyState.STOPPED])
            if self.health.needs_leaders():
                self._ask_one(now)

    def spawn(self, coroutine: Callable[..., Any], *args: object) -> None:
        """Start a coroutine whose failure ends the task."""
        self._task.loop.spawn(coroutine, *args).add_errback(self._task.guarded(_failed))

    def look_soon(self) -> None:
        """Look at once: a fetch of a partition failed."""
        self._wake.set()

    async def ask(self, node: int | None = None) -> None:
        """Ask the source for all leaders; without an answer the known ones stay.

        :param node: the broker to ask; None: any
        """
        task = self._task
        names = sorted({p.source.topic for p in task.partitions if p.state is not CopyState.STOPPED})
        if not names or node in self._asking:
            return
        answers = self._answers
        self._asking.add(node)
        try:
            self._topics = await metadata(task.links.source, names, node)
        except RawError:
            if self._answers == answers:  # no other broker has answered meanwhile
                self._topics = {}
            return
        finally:
            self._asking.discard(node)
        self._answers += 1
        self._apply_leaders()

    def _ask_one(self, now: float) -> None:
        """Ask the next broker; one that has not answered a fetch is the last choice."""
        nodes = self._task.links.source.nodes()
        usable = [n for n in nodes if not self.health.overdue(n, now)] or nodes
        free = [n for n in usable if n not in self._asking]
        if free:
            self._next += 1
            self.spawn(self.ask, free[self._next % len(free)])

    def _apply_leaders(self) -> None:
        for p in self._task.partitions:
            topic = self._topics.get(p.source.topic)
            if topic is None or topic.topic_id != p.source_id:
                continue
            leader = topic.leaders.get(p.source.partition)
            if leader is None or 0 <= leader.epoch < p.leader_epoch:
                continue  # a broker that has not heard of the newest leader
            if (leader.node, leader.epoch) != (p.leader, p.leader_epoch):
                p.leader, p.leader_epoch = leader.node, leader.epoch
                self.health.retry(p)
        self._task.changed.set()

    def _report(self, unavailable: UnavailablePartition) -> None:
        p, topic = unavailable.partition, self._topics.get(unavailable.partition.source.topic)
        reason = unavailable.reason
        if p.leader < 0:
            if topic is not None and stop_if_gone(self._task, p, topic):
                return
            if topic is None:
                reason = "the source does not say which broker leads the partition"
            elif topic.error:
                reason = error_name(topic.error)
        self._task.emit("source_unavailable", p, reason=reason, tries=unavailable.tries)

    def works(self, fetched: Iterable[PartitionCopy]) -> None:
        """Fetches of some partitions succeeded."""
        for p in self.health.works(fetched):
            self._task.emit("source_available", p)


def _failed(error: BaseException) -> None:
    raise error
