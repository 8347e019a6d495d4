"""What a flow's driver computes and hands out, at sizes that need no cluster: plans, leases, state.

The product's own code, with partitions on paper. No input or output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import json
import time
import tracemalloc
from typing import Final, TypeVar
from uuid import UUID

from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.report import PartitionReport, TaskReport
from drkit.flow_state.records import ConfigsRecord, Ends, GenerationRecord, SourceSeenRecord
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, batch_of, pairs
from drkit.offset_map.topic import bucket_of
from drkit.offsets import History, Intent, MapKey, MapRecord, Mark
from drkit.offsets.map_record import Mode
from drkit.replicate.epochs import Epochs
from drkit.replicate.planner import PlacedPartition, Rates

T = TypeVar("T")
Records = list[tuple[MapKey, MapRecord]]
PARTITIONS: Final = (2000, 10_000, 20_000)
PER_TOPIC: Final = 10
BUCKETS: Final = 16
TASKS: Final = 8
_BROKERS: Final = 12
_ID: Final = UUID(int=1 << 100)
_HISTORY: Final = History(4_000_001, 3)
_AT: Final = 1_900_000_000_000
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class ModelRun:
    """One number of partitions, in topics of ten, over eight tasks and sixteen buckets."""

    partitions: int
    seconds: dict[str, float]
    """Processor seconds by what was done, the least of some tries."""
    sizes: dict[str, int]
    """Bytes by what was made."""


def measure(partitions: int) -> ModelRun:
    """Plan, hand out, report and note a flow of that many partitions."""
    placed = [_placed(i) for i in range(partitions)]
    at = [TopicPartition(p.lease.source_topic, p.lease.partition) for p in placed]
    seconds: dict[str, float] = {}

    def timed(name: str, function: Callable[[], T]) -> T:
        took = []
        for _ in range(_TRIES):
            began = time.process_time()
            found = function()
            took.append(time.process_time() - began)
        seconds[name] = round(min(took), 4)
        return found

    epochs = timed("plan", lambda: _planned(placed))
    timed("look without a change", lambda: epochs.update(placed))
    leases = timed("begin of an epoch", epochs.begin)
    texts = timed("leases to JSON", lambda: [lease.to_json() for lease in leases])
    timed("leases from JSON, of all tasks", lambda: [TaskAssignment.from_json(text) for text in texts])
    reports = [_report(lease) for lease in leases]
    told = timed("reports to JSON, of all tasks", lambda: [json.dumps(r.as_dict()) for r in reports])
    timed(
        "end of an epoch",
        lambda: epochs.epoch_ended([json.loads(text) for text in told], last=False),
    )
    seen = SourceSeenRecord(_AT, {p: Ends(10**9 + i, 10**9 + 10**6, 10**9 + 10**6) for i, p in enumerate(at)})
    noted = timed("note of the source's ends", seen.encode)
    claims: Records = [(_key(p.lease), _CLAIM) for p in placed]
    marks: Records = [(_key(p.lease), _MARK) for p in placed]
    timed("marks of all partitions", lambda: pairs(marks))
    written = [*pairs(claims), *pairs(marks)]
    timed("map read again", lambda: _read(written))
    sizes = {
        "largest lease": max(map(len, texts)),
        "all leases": sum(map(len, texts)),
        "all reports": sum(map(len, told)),
        "note of the source's ends": len(noted),
        "records of the topics in the state": _state(placed),
        "map: claim and mark of each partition": sum(len(k) + len(v or b"") for k, v in written),
        "largest batch of marks in a bucket": _largest_batch(marks),
        "task's memory for its partitions, all tasks": _memory(placed),
    }
    return ModelRun(partitions, seconds, sizes)


def _placed(number: int) -> PlacedPartition:
    topic, partition = f"orders.region-{number // PER_TOPIC:05d}", number % PER_TOPIC
    lease = PartitionAssignment(
        topic, str(UUID(int=_ID.int + number // PER_TOPIC)),
        topic, str(UUID(int=_ID.int - number // PER_TOPIC)), partition, bucket_of(topic, partition, BUCKETS),
    )  # fmt: skip
    return PlacedPartition(lease, number % _BROKERS)


def _planned(placed: list[PlacedPartition]) -> Epochs:
    frame = TaskAssignment(
        "source->target", "a1b2c3.1", 0, 0, 0, *_HISTORY, (_HISTORY.producer_id,), (),
        "map", "state", 300.0, 15.0, 21_600_000, (),
    )  # fmt: skip
    epochs = Epochs(frame, TASKS, Rates())
    epochs.update(placed)
    return epochs


def _report(lease: TaskAssignment) -> TaskReport:
    parts = [
        PartitionReport(p.source_topic, p.partition, 10**9, 10**9, "live", "", 10**6, 10**8, 10**4)
        for p in lease.partitions
    ]
    return TaskReport(
        lease.flow, 7, lease.task, "time", 300.0, 0.5, 10**8, 10**10, 10**6, 10**6, 0, 3 * 10**8, parts
    )


def _key(lease: PartitionAssignment) -> MapKey:
    return MapKey(lease.source_id, lease.target_id, lease.partition)


_CLAIM: Final = Intent(Mode.LIVE, 77, _HISTORY, 0, 10**9, 10**9, 5, ((10**9, 100),), 4)
_MARK: Final = Mark(77, _HISTORY, 10**9 + 100, 10**9 + 100, 10**9 + 100, 100, 5, 4, live=True)


def _read(written: list[tuple[bytes, bytes | None]]) -> MapBucket:
    bucket = MapBucket(0)
    for offset, (key, value) in enumerate(written):
        bucket.apply(key, value, offset)
    return bucket


def _state(placed: list[PlacedPartition]) -> int:
    """Bytes of what is kept about each topic: which one it is, and its settings."""
    total = 0
    for lease in {p.lease.source_topic: p.lease for p in placed}.values():
        entry = GenerationRecord(
            lease.target_topic, lease.source_id, lease.target_id, 1, "MkU3OEVBNTcwNTJENDM2Qg"
        )
        settings = ConfigsRecord({"retention.ms": "604800000", "cleanup.policy": "delete"})
        for record in (entry, settings):
            total += len(record.key(lease.source_topic)) + len(record.encode())
    return total


def _largest_batch(marks: Records) -> int:
    """Bytes of the largest batch in which a bucket's marks are written together."""
    by_bucket: dict[int, Records] = {}
    for number, mark in enumerate(marks):
        topic, partition = f"orders.region-{number // PER_TOPIC:05d}", number % PER_TOPIC
        by_bucket.setdefault(bucket_of(topic, partition, BUCKETS), []).append(mark)
    return max(len(batch_of(pairs(some), _AT)[0]) for some in by_bucket.values())


def _memory(placed: list[PlacedPartition]) -> int:
    """Bytes of the cursors and maps of all partitions."""
    tracemalloc.start()
    try:
        kept = [PartitionCopy(p.lease) for p in placed]
        bucket = _read([*pairs((p.key, _CLAIM) for p in kept), *pairs((p.key, _MARK) for p in kept)])
        used = tracemalloc.get_traced_memory()[0]
        assert bucket.partitions
        return used
    finally:
        tracemalloc.stop()
