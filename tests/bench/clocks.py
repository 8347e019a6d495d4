"""All CPU clocks of a run, read at one moment."""

from __future__ import annotations

from collections.abc import Sequence
import os
import time
from typing import Final, NamedTuple

from tests.bench.process_tree import PROC, TICKS_PER_SECOND, ProcessTree, busy_seconds, parse_stat

CORES: Final = os.cpu_count() or 1


class Sample(NamedTuple):
    """Seconds, all of them counted from some moment before the run."""

    at: float
    cpu: float
    """Of the replicator's process tree."""
    brokers: float
    own: float
    """Of the benchmark's processes."""
    busy: float
    """Of all processes on this machine."""
    records: int = 0


class Clocks:
    """Takes samples; give the process ids of the brokers and of the benchmark's own children."""

    def __init__(self, tree: ProcessTree, brokers: Sequence[int], helpers: Sequence[int] = ()) -> None:
        self._tree = tree
        self._brokers = brokers
        self._helpers = helpers

    def sample(self, records: int = 0) -> Sample:
        """Read all clocks now."""
        return Sample(
            at=time.monotonic(),
            cpu=self._tree.cpu_seconds(),
            brokers=_seconds(self._brokers),
            own=time.process_time() + _seconds(self._helpers),
            busy=busy_seconds(),
            records=records,
        )


def foreign_share(first: Sample, last: Sample, cores: int = CORES) -> float:
    """Share of the machine between two samples that strangers used: neither replicator, brokers nor us."""
    known: float = sum(getattr(last, name) - getattr(first, name) for name in ("cpu", "brokers", "own"))
    return max(0.0, (last.busy - first.busy - known) / (last.at - first.at) / cores)


def _seconds(pids: Sequence[int]) -> float:
    ticks: int = sum(parse_stat((PROC / str(pid) / "stat").read_text()).ticks for pid in pids)
    return ticks / TICKS_PER_SECOND
