"""One map, settled at a time: what is in the log, and what the map claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from drkit.offset_map.bucket import MapBucket
from drkit.offsets import (
    History,
    Intent,
    MapKey,
    MapRecord,
    Mark,
    PartitionMap,
    encode_map_record,
)
from drkit.offsets.map_record import SEQUENCE_MODULUS, Mode
from drkit.offsets.resolution import LogBatch, LogLook, NeedLog, Resolution
from drkit.offsets.resolve import Answer, resolve

KEY = MapKey(UUID(int=1), UUID(int=2), 0)


OURS, FOREIGN, BULK = 77, 99, 55


HISTORY: Final = History(OURS, 0)


SEQUENCE_START: Final = SEQUENCE_MODULUS - 7
"""Every history wraps around."""


def after(records: int) -> int:
    """The sequence number after `records` records."""
    return (SEQUENCE_START + records) % SEQUENCE_MODULUS


def live(
    nonce: int, place: int, *runs: tuple[int, int], epoch: int = 1, sequence: int | None = None
) -> Intent:
    """A claim; without foreign records on the target its sequence number follows from its target offset."""
    first = after(place) if sequence is None else sequence
    return Intent(Mode.LIVE, nonce, HISTORY, first, place, place, epoch, runs)


def mark(nonce: int, upstream: int, downstream: int, epoch: int = 1) -> Mark:
    """A mark of live mode, on a target without foreign records."""
    return Mark(nonce, HISTORY, upstream, downstream, downstream, after(downstream), epoch, live=True)


def ours(base: int, records: int, sequence: int, history: History = HISTORY) -> LogBatch:
    """A batch of a live history in the target's log."""
    return LogBatch(base, records, *history, sequence, transactional=False, control=False, aborted=False)


def foreign(base: int, records: int) -> LogBatch:
    """A batch of another producer."""
    return ours(base, records, 0, History(FOREIGN, 0))


def look(end: int, next_sequence: int | None) -> LogLook:
    """What the partition's leader says."""
    return LogLook(end, next_sequence, frozenset({OURS}))


def settle(state: PartitionMap, asked: LogLook, log: Iterable[LogBatch] = ()) -> Answer:
    """An answer, with the log where it is needed."""
    answer = resolve(state, asked)
    for _ in range(4):
        if isinstance(answer, NeedLog):
            start = answer.start
            answer = resolve(state, asked, [b for b in log if b.end > start], start)
    return answer


def settled(state: PartitionMap, asked: LogLook, log: Iterable[LogBatch] = ()) -> Resolution:
    """An exact answer."""
    answer = settle(state, asked, log)
    assert isinstance(answer, Resolution)
    return answer


def map_of(*records: MapRecord) -> PartitionMap:
    """What records of the map say, read from their bytes."""
    bucket = MapBucket(0, "map")
    for record in records:
        bucket.apply(*encode_map_record(KEY, record))
    assert not bucket.unreadable
    return bucket.of(KEY.source_id, KEY.target_id, KEY.partition)
