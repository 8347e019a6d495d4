"""What an error of a source partition means: continue elsewhere, wait, or stop the partition."""

from __future__ import annotations

from typing import Any

from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy
from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.kafka.requests import EARLIEST, LATEST, TopicMetadata, list_offsets, metadata

_UNKNOWN_EPOCH = -1


async def source_trouble(task: TaskContext, p: PartitionCopy, data: Any) -> str:
    """Handle a source partition that answered with an error or with a shorter history than the copied one.

    Returns why it still cannot be fetched; empty when it can be, or when it was stopped.

    :raises RawError: the source stopped answering meanwhile
    """
    code = data.error_code
    if data.diverging_epoch is not None:
        diverged = data.diverging_epoch.end_offset
        task.emit(
            "source_diverged",
            p,
            copied_up_to=p.fetch_position,
            source_history_ends=diverged,
            leader_epoch=data.diverging_epoch.epoch,
        )
        rewind(task, p, diverged, data.diverging_epoch.epoch)
        return ""
    if code == codes.OFFSET_OUT_OF_RANGE:
        return await _out_of_range(task, p)
    if code == codes.TOPIC_AUTHORIZATION_FAILED:
        why = "no permission to read the source topic"
        task.stop(p, "partition_stopped", why, evidence=error_name(code))
        return ""
    if code in codes.NO_SUCH_TOPIC:
        found = (await metadata(task.links.source, [p.source.topic]))[p.source.topic]
        if stop_if_gone(task, p, found):
            return ""
    return error_name(code)


async def _out_of_range(task: TaskContext, p: PartitionCopy) -> str:
    """Retention deleted what comes next, the source lost its tail, or the broker is wrong for the moment."""
    asked = leader, _, position = p.leader, p.generation, p.fetch_position
    first = (await list_offsets(task.links.source, leader, {p.source: EARLIEST}, committed=False))[p.source]
    last = (await list_offsets(task.links.source, leader, {p.source: LATEST}, committed=False))[p.source]
    if task.ending or asked != (p.leader, p.generation, p.fetch_position):
        return ""  # the answer is about a state that has passed
    if first.error or last.error:
        return error_name(first.error or last.error)
    if position < first.offset:
        fields = {"from_offset": position, "to_offset": first.offset, "lost_offsets": first.offset - position}
        if task.flow.on_source_gap == "stop":
            task.stop(p, "source_gap", "the source deleted records before they were copied", **fields)
        else:
            task.emit("source_gap", p, stopped=False, **fields)
            gap(task, p, first.offset)
        return ""
    if position > last.offset:
        task.emit("source_diverged", p, copied_up_to=position, source_history_ends=last.offset)
        rewind(task, p, last.offset, _UNKNOWN_EPOCH)
        return ""
    name = error_name(codes.OFFSET_OUT_OF_RANGE)
    return f"{name}, though offset {position} lies between {first.offset} and {last.offset}"


def gap(task: TaskContext, p: PartitionCopy, to_offset: int) -> None:
    """The source holds nothing before `to_offset` any more: copying and the frontier continue there."""
    if not p.pass_gap(to_offset):
        task.trouble(p)
    task.changed.set()


def rewind(task: TaskContext, p: PartitionCopy, upstream: int, epoch: int) -> None:
    """The source's history is shorter than what was copied: copying continues where it ends now."""
    task.trouble(p)
    p.rewind(upstream, epoch)


def stop_if_gone(task: TaskContext, p: PartitionCopy, found: TopicMetadata) -> bool:
    """Stop a partition whose topic does not exist any more under its id. Returns whether that is so.

    :param found: what the source says about the topic's name now
    """
    if found.error in codes.NO_SUCH_TOPIC:
        evidence = error_name(found.error)
        task.stop(p, "source_deleted", "the source topic was deleted", evidence=evidence)
        return True
    if found.error or found.topic_id == p.source_id:
        return False
    task.stop(
        p,
        "source_recreated",
        "the source topic was deleted and created again",
        old_id=str(p.source_id),
        new_id=str(found.topic_id),
    )
    return True
