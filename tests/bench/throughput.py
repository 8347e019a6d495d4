"""One throughput run: from the first record that reaches the target to the last one that is visible there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.clocks import Clocks, Sample, foreign_share
from tests.bench.peers.replicator import Running
from tests.bench.topics import EndOffsets
from tests.bench.waiting import moments

LOOK_SECONDS: Final = 0.04
MEMORY_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 0.7
"""The end offset must be unchanged for this long; the run is timed to its last change, not to the wait."""
FIRST_RECORD_SECONDS: Final = 180.0
LAST_RECORD_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one run gave."""

    records: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    foreign_cpu_share: float
    """Share of the machine that neither replicator, brokers nor benchmark used: noise from others."""
    startup_seconds: float
    tree_bytes: int
    jvm_bytes: int
    worker_bytes: int

    @property
    def per_second(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds for a million records."""
        return self.cpu_seconds / self.records * 1e6


def measure(replicator: Running, ends: EndOffsets, expected: int, brokers: Sequence[int]) -> Throughput:
    """Watch the target until ``expected`` records are visible; else TimeoutError or ReplicatorDied."""
    clocks = Clocks(replicator.tree, brokers)
    first = _first(replicator, ends.appended, clocks)
    last = _last(replicator, ends.visible, clocks, expected)
    return account(first, last, expected, replicator)


def account(first: Sample, last: Sample, expected: int, replicator: Running) -> Throughput:
    """The differences of two samples. Records already there at the first one are not counted."""
    seconds = max(last.at - first.at, LOOK_SECONDS)
    memory = replicator.tree.memory
    return Throughput(
        records=max(expected - first.records, 1),
        seconds=seconds,
        cpu_seconds=last.cpu - first.cpu,
        broker_cpu_seconds=last.brokers - first.brokers,
        foreign_cpu_share=foreign_share(first, last),
        startup_seconds=first.at - replicator.started_at,
        tree_bytes=memory.tree,
        jvm_bytes=memory.jvm,
        worker_bytes=memory.worker,
    )


def _first(replicator: Running, appended: Callable[[], int], clocks: Clocks) -> Sample:
    for _ in moments(FIRST_RECORD_SECONDS, every=LOOK_SECONDS):
        if records := appended():
            return clocks.sample(records)
        replicator.check()
    raise TimeoutError(f"no record on the target within {FIRST_RECORD_SECONDS:.0f} s")


def _last(replicator: Running, visible: Callable[[], int], clocks: Clocks, expected: int) -> Sample:
    memory_due = 0.0
    records, last = 0, clocks.sample(0)
    for now in moments(LAST_RECORD_SECONDS, every=LOOK_SECONDS):
        seen = visible()
        if seen != records and seen >= expected:
            last = clocks.sample(seen)
        records = seen
        if records >= expected and now - last.at > SETTLE_SECONDS:
            return last
        if now >= memory_due:
            replicator.check()
            replicator.tree.sample_memory()
            memory_due = now + MEMORY_SECONDS
    raise TimeoutError(f"{records} of {expected} records on the target after {LAST_RECORD_SECONDS:.0f} s")
