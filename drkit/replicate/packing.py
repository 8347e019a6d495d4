"""Keeping the offset map small: many intents of a partition become one pack, trimmed and tombstoned.

A plain topic needs one segment for ever; a transactional source needs one per marker, so its intents
are packed, and what lies below the target's log start is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from drkit.clock import wall_ms
from drkit.kafka.requests import EARLIEST, list_offsets
from drkit.model import TopicPartition
from drkit.offsets import MapKey, MapRecord, Mark, Pack, SegmentMap
from drkit.offsets.map_record import place
from drkit.replicate.context import TaskContext
from drkit.replicate.mapstore import encode_batch, new_nonce, tombstones
from drkit.replicate.partition import PartitionCopy
from drkit.replicate.resume import Settled

PACK_AT = 256
"""Intents of one partition in the map topic from which on they are packed."""
_PART_SEGMENTS = 8192
_TOMBSTONES = 4096


async def pack(
    task: TaskContext, settled_now: list[PartitionCopy], settled: dict[TopicPartition, Settled]
) -> None:
    """Pack the maps of those partitions that have grown many records.

    :raises Failed: the map topic does not take them
    """
    for p in settled_now:
        bucket = task.buckets[p.lease.bucket]
        old = bucket.keys.get(p.key, {})
        found = settled[p.target].resolution
        if found is None or found.upstream is None or found.foreign or len(old) < PACK_AT:
            continue
        first = await list_offsets(task.links.target, p.target_leader, {p.target: EARLIEST}, committed=False)
        if first[p.target].error:
            continue
        found.segments.trim(first[p.target].offset)
        mark = Mark(
            p.nonce(task.nonce),
            found.upstream,
            found.downstream,
            found.copied_end,
            found.sequence,
            found.leader_epoch,
        )
        for part in parts(found.segments, found.downstream):
            # The last part takes effect together with the mark behind it: one batch, or neither.
            last = part.part + 1 == part.parts
            await _write(task, p, [(p.key, part), *([(p.key, mark)] if last else [])])
        # A claim at or behind the end may be of another task that is about to append there.
        keys = [key for key in old if place(key) < found.downstream]
        for i in range(0, len(keys), _TOMBSTONES):
            data = tombstones(keys[i : i + _TOMBSTONES], wall_ms())
            await task.append_internal(task.lease.map_topic, p.lease.bucket, data)


def parts(segments: SegmentMap, until: int) -> Iterator[Pack]:
    """Split the segments of a partition into the parts of one pack."""
    nonce = new_nonce()
    count = max(1, -(-len(segments) // _PART_SEGMENTS))
    for i in range(count):
        piece = segments.part(i * _PART_SEGMENTS, (i + 1) * _PART_SEGMENTS)
        yield Pack(nonce, i, count, until, piece)


async def _write(task: TaskContext, p: PartitionCopy, records: list[tuple[MapKey, MapRecord]]) -> None:
    data, _ = encode_batch(records, wall_ms())
    await task.append_internal(task.lease.map_topic, p.lease.bucket, data)
