"""Marks: what a task has appended, confirmed in the offset map."""

from __future__ import annotations

from collections.abc import Iterable

from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy


async def write_marks(task: TaskContext, bucket: int, partitions: Iterable[PartitionCopy]) -> None:
    """Confirm how far some partitions of a bucket are, where that has changed; durable when it returns.

    :raises Failed: the map topic does not take them
    """
    marks = [(p, p.generation, mark) for p in partitions if (mark := p.mark(task.nonce)) is not None]
    if marks:
        await task.write_map(bucket, [(p.key, mark) for p, _, mark in marks])
    for p, generation, mark in marks:
        p.confirmed(mark, generation)
