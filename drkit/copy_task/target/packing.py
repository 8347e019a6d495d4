"""Keeping the offset map small: many intents of a partition become one pack, trimmed and tombstoned.

A plain topic needs one segment forever; a transactional source needs one per marker, so its intents
are packed, and what is below the target's log start is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy
from drkit.kafka.requests import EARLIEST, list_offsets
from drkit.offset_map.bucket import Pair, pairs
from drkit.offset_map.packs import parts
from drkit.offsets import History, MapKey, MapRecord, PartitionMap, encode_intent
from drkit.offsets.history import steps
from drkit.offsets.map_codec import place, turned_to
from drkit.offsets.resolution import Resolution
from drkit.offsets.takeup import Author, mark_of

PACK_AT = 256
"""Intents of one partition in the map topic from which on they are packed."""
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
        state = task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
        batches, gone = pack_of(p.key, state, found, author, list(old))
        for batch in batches:
            await task.write_map_pairs(p.lease.bucket, batch)
        for i in range(0, len(gone), _TOMBSTONES):
            await task.write_map_pairs(p.lease.bucket, gone[i : i + _TOMBSTONES])


def pack_of(
    key: MapKey, state: PartitionMap, found: Resolution, author: Author, old: Iterable[bytes]
) -> tuple[list[list[Pair]], list[Pair]]:
    """The batches of a pack, and the tombstones for what it says all of.

    Claims that reach further stay, and so does the last turn: it says which histories have ended.

    :param old: keys of the partition's intents, turns and packs
    """
    history = found.history or History(-1, -1)
    mark = mark_of(found, history, author)
    batches: list[list[Pair]] = []
    for part in parts(found.segments, found.downstream):
        # The last part takes effect together with the mark in its batch: both, or neither.
        last = part.part + 1 == part.parts
        records: list[MapRecord] = [part, mark] if last else [part]
        batches.append(pairs((key, r) for r in records))
    kept = {
        encode_intent(key, c)[0]
        for c in state.pending
        if c.history == history and steps(c.base_sequence, found.sequence) + c.count > 0
    }
    gone: list[Pair] = [
        (k, None) for k in old if k not in kept and place(k) < found.downstream and turned_to(k) != history
    ]
    return batches, gone
