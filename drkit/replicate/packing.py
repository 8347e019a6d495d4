"""Keeping the offset map small: many intents of a partition become one pack, trimmed and tombstoned.

A plain topic needs one segment for ever; a transactional source needs one per marker, so its intents
are packed, and what lies below the target's log start is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from drkit.kafka.requests import EARLIEST, list_offsets
from drkit.offset_map.bucket import Pair, pairs
from drkit.offset_map.topic import new_nonce
from drkit.offsets import MapRecord, Pack, SegmentMap, encode_intent
from drkit.offsets.history import steps
from drkit.offsets.map_record import place, turned_to
from drkit.offsets.resolve import Resolution
from drkit.offsets.takeup import Author, mark_of
from drkit.replicate.context import TaskContext
from drkit.replicate.partition import PartitionCopy

PACK_AT = 256
"""Intents of one partition in the map topic from which on they are packed."""
_PART_SEGMENTS = 8192
_TOMBSTONES = 4096


async def pack(task: TaskContext, settled: Iterable[tuple[PartitionCopy, Resolution, Author]]) -> None:
    """Pack the maps of those partitions that have grown many records.

    :raises Failed: the map topic does not take them
    """
    for p, found, author in settled:
        old = task.buckets[p.lease.bucket].keys.get(p.key, {})
        if found.upstream is None or found.history is None or found.foreign or len(old) < PACK_AT:
            continue
        first = await list_offsets(task.links.target, p.target_leader, {p.target: EARLIEST}, committed=False)
        if first[p.target].error:
            continue
        found.segments.trim(first[p.target].offset)
        mark = mark_of(found, found.history, author)
        for part in parts(found.segments, found.downstream):
            # The last part takes effect together with the mark in its batch: both, or neither.
            last = part.part + 1 == part.parts
            records: list[MapRecord] = [part, mark] if last else [part]
            await task.write_map_pairs(p.lease.bucket, pairs((p.key, r) for r in records))
        gone: list[Pair] = [(key, None) for key in _replaced(task, p, found, old)]
        for i in range(0, len(gone), _TOMBSTONES):
            await task.write_map_pairs(p.lease.bucket, gone[i : i + _TOMBSTONES])


def _replaced(task: TaskContext, p: PartitionCopy, found: Resolution, old: Iterable[bytes]) -> list[bytes]:
    """The keys of which the pack says all: not those of claims that reach further, nor of the last turn."""
    state = task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
    kept = {
        encode_intent(p.key, c)[0]
        for c in state.pending
        if c.history == found.history and steps(c.base_sequence, found.sequence) + c.count > 0
    }
    return [
        key
        for key in old
        if key not in kept and place(key) < found.downstream and turned_to(key) != found.history
    ]


def parts(segments: SegmentMap, until: int) -> Iterator[Pack]:
    """Split the segments of a partition into the parts of one pack."""
    nonce = new_nonce()
    count = max(1, -(-len(segments) // _PART_SEGMENTS))
    for i in range(count):
        piece = segments.part(i * _PART_SEGMENTS, (i + 1) * _PART_SEGMENTS)
        yield Pack(nonce, i, count, until, piece)
