"""Deletes the offset map's records of deleted copies, by the writer of the bucket."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from drkit.copy_task.core.context import TaskContext
from drkit.errors import Failed
from drkit.kafka.codes import UNKNOWN_TOPIC_ID
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import MetadataRequest

_TOMBSTONES = 4096


async def forget_deleted(task: TaskContext) -> None:
    """Delete the map of copies that no broker knows; what fails is left to the next epoch."""
    own = {p.target_id for p in task.partitions}
    ids = {where.target_id for bucket in task.buckets.values() for where in bucket.partitions} - own
    try:
        deleted = await unknown_ids(task.links.target, ids)
        for number, bucket in task.buckets.items():
            pairs = bucket.tombstones(deleted)
            for i in range(0, len(pairs), _TOMBSTONES):
                await task.write_map(number, pairs[i : i + _TOMBSTONES])
    except Failed:
        return


async def unknown_ids(cluster: RawCluster, ids: Iterable[UUID]) -> set[UUID]:
    """Return the topic ids that no broker knows: topics that were deleted (KIP-516). Raises RawError.

    A topic that drkit's principal may not see is known: an id is no secret.
    """
    topics = [MetadataRequest.MetadataRequestTopic(topic_id=i, name=None) for i in ids]
    unknown = {topic.topic_id for topic in topics}
    for node in sorted(cluster.nodes()) if topics else ():
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False, min_version=12)
        answer = await cluster.send(request, node, timeout_ms=10_000)
        unknown &= {t.topic_id for t in answer.topics if t.error_code == UNKNOWN_TOPIC_ID}
    return unknown
