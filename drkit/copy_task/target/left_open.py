"""Ends transactions of earlier tasks that miss markers: see :mod:`drkit.offset_map.left_open`.

No task can settle such a partition. In the current epoch the appender of the bucket waits for the markers of
each transaction, and begins a new epoch where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drkit.catalogue import ERRORS
from drkit.copy_task.core.context import TaskContext, error_name
from drkit.copy_task.core.partition import PartitionCopy
from drkit.errors import Failed
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED
from drkit.kafka.transactions import open_in
from drkit.model import TopicPartition
from drkit.offset_map.left_open import BulkOutcomes
from drkit.offsets import PartitionMap


async def end_on_map(task: TaskContext, bucket: int) -> None:
    """End hanging transactions on a bucket of the map, before the bucket is read.

    :raises RawError: a broker does not answer
    :raises Failed: drkit may not write the marker
    """
    leader = (await task.internal(task.lease.map_topic, refresh=True)).leaders.get(bucket)
    if leader is None or leader.node < 0:
        return
    tp = TopicPartition(task.lease.map_topic, bucket)
    if tp in await _end(task, bucket, {tp: leader.node}):
        where, evidence = f"{tp} on {task.links.target.alias}", error_name(CLUSTER_AUTHORIZATION_FAILED)
        raise Failed("transaction_left_open", where=where, evidence=evidence)


async def end_on_targets(task: TaskContext, partitions: Iterable[PartitionCopy]) -> None:
    """End hanging transactions on partitions that are being settled; their map has been read.

    :raises RawError: a broker does not answer
    """
    unsettled = {p.target: p for p in partitions}
    for bucket, copies in task.in_bucket.items():
        leaders = {p.target: p.target_leader for p in copies if p.target in unsettled}
        for tp in await _end(task, bucket, leaders):
            task.stop_unfenced(unsettled[tp], ERRORS["transaction_left_open"].sentence)


async def _end(task: TaskContext, bucket: int, leaders: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """End hanging transactions of a bucket's producer: those of older epochs; return where drkit may not."""
    target, newest = task.links.target, task.transactions[bucket].identity
    if task.expired or newest.id < 0:
        return []
    copies, refused = {p.target: p for p in task.in_bucket[bucket]}, []

    async def read_map(tp: TopicPartition) -> PartitionMap:
        return task.buckets[bucket].partitions.get(copies[tp].key, PartitionMap())

    maps = {newest.id: TopicPartition(task.lease.map_topic, bucket)}
    outcomes = BulkOutcomes(target, maps, {p.target_id: p.target.topic for p in copies.values()}, read_map)
    for opened in await open_in(target, leaders, {newest.id}):
        if opened.state.epoch < newest.epoch:
            commits = await outcomes.is_committed(opened)
            code = await opened.end(target, newest.epoch, commits=commits)
            if code == CLUSTER_AUTHORIZATION_FAILED:
                refused.append(opened.at)
            elif not code:
                task.emit(
                    "transaction_ended", opened.at, offset=opened.state.open_since, producer_id=newest.id,
                    committed=commits, reason="its coordinator took a transaction of drkit's own for ended",
                )  # fmt: skip
    return refused
