"""What a copy task tells when its epoch is over."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from drkit.replicate.spread import Spread


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """Where one partition stands at the end of an epoch."""

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
    age_ms: Spread = field(default_factory=Spread)
    """How old batches were when they were fetched."""
    latency_ms: Spread = field(default_factory=Spread)
    """How old they were when they stood on the target."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One task's epoch: what it moved and how it ended.

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
    """Producer of an opposite flow → records that were left out."""

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)
