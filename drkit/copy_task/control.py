"""What tasks read in the flow's state: the control record, and the lease under which they write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drkit.clock import boottime
from drkit.copy_task.core.context import TaskContext
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.records import ControlRecord, LeaseRecord
from drkit.kafka.raw import RawError
from drkit.kafka.requests import LATEST, aborted_in, fetch_one, list_offsets
from drkit.model import TopicPartition
from drkit.wire import Record, records_in, visible

_CONTROL: Final = ControlRecord.key().encode()
_LEASE: Final = LeaseRecord.key().encode()
_POLL_SECONDS = 0.4
_LOOK_BACK = 1000
"""Offsets before the end of the state topic at which a task begins to read: minutes, where seconds count."""


@dataclass(slots=True)
class ReadProgress:
    """How far a task has read the flow's state."""

    position: int | None = None
    """The next offset to read; None: where to begin is unknown."""
    end: int = 0
    """Of the topic at the first look: what is before it may be older than this task."""
    complete_at: float | None = None
    """When the newest look was asked that showed all that could be read then; None: there was none."""


async def until_renewed(task: TaskContext) -> None:
    """If the lease of the epoch's begin is over, look until a renewal is seen, for at most the lease time.

    Spark restarts a task with its first arguments, also late in an epoch. This function writes nothing.
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
    except (RawError, KeyError):
        task.state_topic = None
    if not has_more and not task.ending:
        await task.loop.sleep(_POLL_SECONDS)


async def _poll(task: TaskContext, reading: ReadProgress) -> bool:
    """Read on and obey the records; returns whether there is more to read at once.

    In a large flow a look back is tens of megabytes: with a pause after each answer a lease would end
    before its renewals are read.
    """
    asked = boottime()
    name = task.lease.state_topic
    topic = await task.internal(name, refresh=task.state_topic is None)
    node = topic.leaders[0].node
    where = TopicPartition(name, 0)
    if reading.position is None:
        listed = (await list_offsets(task.links.target, node, {where: LATEST}, committed=False))[where]
        if listed.error:
            return False
        reading.end, reading.position = listed.offset, max(0, listed.offset - _LOOK_BACK)
    answer = await fetch_one(
        task.links.target, node, (name, topic.topic_id), 0, reading.position, max_bytes=1 << 20, max_wait_ms=0
    )
    if answer.error_code:
        task.state_topic = reading.position = reading.complete_at = None
        return False
    out = visible(answer.records or b"", reading.position, aborted=aborted_in(answer))
    take(task, reading, [record for chunk in out.chunks for record in records_in(chunk)])
    before, reading.position = reading.position, max(reading.position, out.next_source)
    if reading.position >= answer.last_stable_offset:
        reading.complete_at = asked
        return False
    return reading.position > before


def take(task: TaskContext, reading: ReadProgress, records: Iterable[Record]) -> None:
    """Do what the newest control record and the newest lease record say.

    :param records: of one look
    """
    last = dict[bytes, Record]()
    for record in records:
        why = task.signatures.refused(record.key, record.value, record.headers)
        if record.key in {_CONTROL, _LEASE} and not why:
            last[record.key] = record
    if (control := last.get(_CONTROL)) is not None and control.value is not None:
        obey(task, control.value, past=control.offset < reading.end)
    if (lease := last.get(_LEASE)) is not None:
        heed(task, lease.value, reading.complete_at, past=lease.offset < reading.end)


def heed(task: TaskContext, value: bytes | None, before: float | None, *, past: bool) -> None:
    """Continue to write if this task's run has renewed the lease; stop if another run took it.

    :param value: the record; None: the lease was given back
    :param before: when a look was asked that showed all there was, and not this record; None: there was none
    :param past: the record may be older than this task, so another run's says nothing
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
    """End the epoch when the control record says so.

    :param past: the record may be older than this task, so another run's says nothing
    """
    try:
        control = ControlRecord.decode(value)
    except Malformed:
        return
    if control.run_id != task.lease.run_id:
        if not past:
            task.finish("superseded")  # another run leads this flow now
    elif control.action == "stop":
        task.finish("stop")
    elif control.plan > task.lease.plan:
        task.finish("plan")
