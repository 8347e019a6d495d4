"""The report of a copy task at the end of its epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
import resource
from typing import Any, Final

from drkit.clock import boottime, wall_ms
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.source.health import SourceHealth
from drkit.errors import DrkitError
from drkit.flow_state.records import SpeedRecord
from drkit.flow_state.topic import StateTopic
from drkit.min_max_mean import MinMaxMean


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The position of one partition at the end of an epoch."""

    topic: str
    partition: int
    frontier: int
    """First source offset that is not on the target."""
    target_end: int
    state: str
    reason: str
    records: int
    bytes: int
    batches: int = 0
    age_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """How old batches were when they were fetched."""
    latency_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """How old batches were when they were on the target."""

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return _shallow(self) | {"age_ms": self.age_ms.as_dict(), "latency_ms": self.latency_ms.as_dict()}


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One task's epoch: the copied records, and how it ended.

    `ended` is ``time``, ``plan``, ``stop``, ``once``, ``superseded``, ``fenced`` or ``expired``.
    """

    flow: str
    epoch: int
    task: int
    ended: str
    seconds: float
    startup_seconds: float
    """Until the first fetch was sent."""
    records: int
    bytes: int
    batches: int
    requests: int
    resyncs: int
    peak_memory_bytes: int
    partitions: list[PartitionReport] = field(default_factory=list)
    looped: dict[int, int] = field(default_factory=dict)
    """Producer id of the opposite flow → skipped records."""
    busy_seconds: float = 0.0
    """Seconds in which records arrived on the target, to about a fifth of a second."""

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return _shallow(self) | {"partitions": [p.as_dict() for p in self.partitions]}


def report_of(
    task: TaskContext, health: SourceHealth, startup: float, busy_seconds: float = 0.0
) -> TaskReport:
    """Return the report of a task that ends now.

    :param startup: seconds until its first fetch
    """
    lease, now = task.lease, boottime()
    return TaskReport(
        flow=lease.flow,
        epoch=lease.epoch,
        task=lease.task,
        ended=task.ending,
        seconds=now - task.started,
        startup_seconds=startup,
        records=sum(p.records for p in task.partitions),
        bytes=sum(p.bytes for p in task.partitions),
        batches=task.counters.batches,
        requests=task.counters.requests,
        resyncs=task.counters.resyncs,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        partitions=[
            PartitionReport(
                topic=p.source.topic,
                partition=p.source.partition,
                frontier=p.acked_upstream,
                target_end=p.acked_downstream,
                state=p.state.value,
                reason=health.reason(p, now),
                records=p.records,
                bytes=p.bytes,
                batches=p.batches,
                age_ms=p.age_ms,
                latency_ms=p.latency_ms,
            )
            for p in task.partitions
        ],
        looped=task.counters.looped,
        busy_seconds=busy_seconds,
    )


def _shallow(report: Any) -> dict[str, Any]:
    """Return the fields by name: `asdict` copies each value, long for thousands of partitions."""
    return {name: getattr(report, name) for name in _names(report.__class__)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


_LEAST_BYTES: Final = 1 << 20
_LEAST_AGE_MS: Final = 1000
"""A more recent batch was fetched on arrival: the flow had no lag."""
_REMEMBERED_MS: Final = 30 * 86_400_000
_FASTER: Final = 1.05


def note_speed(state: StateTopic, reports: Sequence[Mapping[str, Any]]) -> None:
    """Record the speed of an epoch that was faster than the recorded one, or if there is no recent one."""
    speed = faster(state.records.readable(SpeedRecord).get(""), reports, wall_ms())
    if speed is not None:
        with suppress(DrkitError):  # the copy continues, and reports itself that the target does not answer
            state.put(speed)


def faster(
    recorded: SpeedRecord | None, reports: Sequence[Mapping[str, Any]], now_ms: int
) -> SpeedRecord | None:
    """Return the speed of an epoch if it should be recorded, else None. Pure.

    An epoch without lag shows the speed of the producers, not the possible speed of the copy.

    :param reports: of all tasks of the epoch
    """
    size = sum(r["bytes"] for r in reports)
    seconds = max((r.get("busy_seconds", 0.0) for r in reports), default=0.0)
    ages = [p["age_ms"]["least"] for r in reports for p in r["partitions"] if p["records"]]
    if size < _LEAST_BYTES or seconds <= 0 or min(ages, default=0) < _LEAST_AGE_MS:
        return None
    speed = SpeedRecord(now_ms, size, round(seconds, 3))
    if recorded is not None and now_ms < recorded.at_ms + _REMEMBERED_MS:
        return speed if speed.bytes_per_second > recorded.bytes_per_second * _FASTER else None
    return speed
