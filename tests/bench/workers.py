"""One copy by one, two and more tasks: records per second, and of whose processor time they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drkit.local.cluster import LocalCluster
from tests.bench import throughput
from tests.bench.clocks import CORES
from tests.bench.load import fill
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Command, Flow, running
from tests.bench.scenarios import SCENARIOS
from tests.bench.topics import EndOffsets, Topics

TASKS: Final = (1, 2, 4)
_SCENARIO: Final = SCENARIOS[0]


@dataclass(frozen=True, slots=True)
class WorkersRun:
    """One copy of 1 KB records."""

    tasks: int
    round: int
    per_second: float
    bytes_per_second: float
    """Of the values, before compression."""
    cpu_per_gb: float
    """Processor seconds of drkit for 10⁹ of these bytes."""
    broker_cpu_per_gb: float
    """The same of both brokers."""
    idle: float
    """Share of the machine that nothing used."""


@dataclass(frozen=True, slots=True)
class _Tasks(Drkit):
    """drkit with another number of tasks."""

    tasks: int = 2

    def prepare(self, flow: Flow) -> Command:
        command = super(_Tasks, self).prepare(flow)
        path = flow.folder / "drkit.toml"
        path.write_text(path.read_text().replace("tasks = 2", f"tasks = {self.tasks}"))
        return command


def measure(
    source: LocalCluster,
    target: LocalCluster,
    folder: Path,
    rounds: int,
    tell: Callable[[str], None],
    *,
    quick: bool,
) -> Iterator[WorkersRun]:
    """Copy the same topic to an emptied target with each number of tasks, round by round.

    The first copy warms up the brokers and is not counted.

    :raises TimeoutError: a copy did not come to its end
    """
    records = _SCENARIO.quick_records if quick else _SCENARIO.records
    Topics(source.bootstrap()).create(_SCENARIO.topic)
    expected = fill(source.bootstrap(), _SCENARIO, records)
    brokers = [broker.pid for cluster in (source, target) for broker in cluster.brokers]
    for number in range(rounds + 1):
        for tasks in TASKS if number else TASKS[:1]:
            Topics(target.bootstrap()).wipe(set())
            Topics(source.bootstrap()).wipe({_SCENARIO.topic})
            at = folder / f"{tasks}-{number}"
            flow = Flow(source.bootstrap(), target.bootstrap(), _SCENARIO.topic, _SCENARIO.codec, at)
            ends = EndOffsets(target.bootstrap(), _SCENARIO.topic)
            with running(_Tasks(tasks=tasks), flow) as replicator:
                found = throughput.measure(replicator, ends, expected, brokers)
            if number:
                run = _run(tasks, number, found)
                tell(f"    {tasks} tasks, round {number}: {run}")
                yield run


def _run(tasks: int, number: int, found: throughput.Throughput) -> WorkersRun:
    size = found.records * _SCENARIO.record_bytes / 1e9
    used = found.cpu_seconds + found.broker_cpu_seconds
    share = used / found.seconds / CORES + found.foreign_cpu_share
    return WorkersRun(
        tasks, number, round(found.per_second), round(size * 1e9 / found.seconds),
        round(found.cpu_seconds / size, 3), round(found.broker_cpu_seconds / size, 3),
        round(max(0.0, 1 - share), 3),
    )  # fmt: skip
