"""What tasks read in the flow's state: the control record, and the lease under which they write."""

from __future__ import annotations

from typing import Final

from drkit.clock import boottime
from drkit.control_key import verify
from drkit.flow_state.fields import Malformed
from drkit.flow_state.records import ControlRecord, LeaseRecord
from drkit.kafka.raw import RawError
from drkit.kafka.requests import LATEST, aborted_in, fetch_one, list_offsets
from drkit.model import TopicPartition
from drkit.replicate.context import TaskContext
from drkit.wire import records_in, visible

_CONTROL: Final = ControlRecord.key().encode()
_LEASE: Final = LeaseRecord.key().encode()
_POLL_SECONDS = 0.4
_LOOK_BACK = 1000
"""Offsets before the end of the state topic at which a task begins to read: minutes, where seconds count."""


async def follow_control(task: TaskContext) -> None:
    """Poll the state topic until the epoch ends or the control record ends it."""
    position: int | None = None
    before: float | None = None
    while not task.ending:
        asked = boottime()
        try:
            position = await _poll(task, position, before)
            before = asked if position is not None else None
        except (RawError, KeyError):
            task.state_topic = None
        await task.changed.wait(_POLL_SECONDS) if task.ending else await task.loop.sleep(_POLL_SECONDS)


async def _poll(task: TaskContext, position: int | None, before: float | None) -> int | None:
    """Read on, and do what is said there.

    :param before: when the look before this one was asked; None: none, or it found nothing
    """
    name = task.lease.state_topic
    topic = await task.internal(name, refresh=task.state_topic is None)
    node = topic.leaders[0].node
    where = TopicPartition(name, 0)
    first_look = position is None
    if position is None:
        listed = (await list_offsets(task.links.target, node, {where: LATEST}, committed=False))[where]
        if listed.error:
            return None
        position = max(0, listed.offset - _LOOK_BACK)
    answer = await fetch_one(
        task.links.target, node, (name, topic.topic_id), 0, position, max_bytes=1 << 20, max_wait_ms=0
    )
    if answer.error_code:
        task.state_topic = None
        return None
    out = visible(answer.records or b"", position, aborted=aborted_in(answer))
    last: dict[bytes, bytes | None] = {}
    for chunk in out.chunks:
        for record in records_in(chunk):
            if record.key not in {_CONTROL, _LEASE}:
                continue
            if not verify(task.links.target.control, name, record.key, record.value, record.headers):
                last[record.key] = record.value
    if (control := last.get(_CONTROL)) is not None:
        obey(task, control, past=first_look)
    if _LEASE in last and not first_look:
        heed(task, last[_LEASE], before)
    return max(position, out.next_source)


def heed(task: TaskContext, value: bytes | None, before: float | None) -> None:
    """Write on when our run has renewed the lease, and no more when another run took it.

    :param value: the record; None: the lease was given back
    :param before: when the look before was asked, which did not show this record
    """
    try:
        run = LeaseRecord.decode(value).run_id if value is not None else ""
    except Malformed:
        return
    if run != task.lease.driver:
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
