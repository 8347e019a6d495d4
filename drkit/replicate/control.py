"""The control record of a flow: every task looks at it and ends its epoch early when the plan changed."""

from __future__ import annotations

from typing import Final

from drkit.control_key import verify
from drkit.flow_state.fields import Malformed
from drkit.flow_state.records import ControlRecord
from drkit.kafka.raw import RawError
from drkit.kafka.requests import LATEST, aborted_in, fetch_one, list_offsets
from drkit.model import TopicPartition
from drkit.replicate.context import TaskContext
from drkit.wire import records_in, visible

_KEY: Final = ControlRecord.key().encode()
_POLL_SECONDS = 0.4
_LOOK_BACK = 1000
"""Offsets before the end of the state topic at which a task begins to read: minutes, where seconds count."""


async def follow_control(task: TaskContext) -> None:
    """Poll the state topic until the epoch ends or the control record ends it."""
    position: int | None = None
    while not task.ending:
        try:
            position = await _poll(task, position)
        except (RawError, KeyError):
            task.state_topic = None
        await task.changed.wait(_POLL_SECONDS) if task.ending else await task.loop.sleep(_POLL_SECONDS)


async def _poll(task: TaskContext, position: int | None) -> int | None:
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
    last: bytes | None = None
    for chunk in out.chunks:
        for record in records_in(chunk):
            if record.key != _KEY or record.value is None:
                continue
            if not verify(task.links.target.control, name, record.key, record.value, record.headers):
                last = record.value
    if last is not None:
        obey(task, last, past=first_look)
    return max(position, out.next_source)


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
