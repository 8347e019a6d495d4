"""Many topics, partitions and groups: what a flow of that size takes, at three sizes, to show growth.

Each size has clusters of its own, of one broker each, and a real ``drkit replicate`` with default settings:
a start with an empty target, a restart, a time at rest, a time with light load on ten topics, new topics, and
the commands that look at everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import os
from pathlib import Path
import subprocess
import sys
import time
from typing import Final

from drkit.local.cluster import LocalCluster
from tests.bench.latency import percentile
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Flow, Running, running
from tests.bench.process_tree import PROC, TICKS_PER_SECOND, WORKER_MARK, Process, parse_stat
from tests.bench.scale_data import PARTITIONS, Data
from tests.bench.waiting import pause, until

SIZES: Final = (250, 500, 1000)
"""Topics, of two partitions each, and twice as many groups."""
QUICK_SIZES: Final = (50, 100)
REST_SECONDS: Final = 60.0
LOAD_SECONDS: Final = 30.0
NEW_TOPICS: Final = 3
ROLES: Final = ("driver", "JVM", "tasks")
BROKERS: Final = ("source broker", "target broker")
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "replicate --dry-run": ("replicate", "--dry-run"),
    "status": ("status", "--json"),
    "failover --all --dry-run": ("failover", "--all", "--dry-run", "--json"),
}
_PATIENCE: Final = 600.0
_TRIES: Final = 3
_QUICK: Final = 0.5
"""Of the times, in quick mode."""
_LOOK_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 15.0
_SETTINGS: Final = 'groups = ["scale-.*"]\n[failover]\njournal_folder = "{journal}"\n'


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """One size; seconds and bytes."""

    topics: int
    partitions: int
    groups: int
    first_record: float
    """From the start of ``drkit replicate``, with an empty target, to the first record there."""
    all_records: float
    """To the last record of the topics."""
    all_groups: float
    """To the last position of the groups."""
    restart: float
    """From the start of ``drkit replicate``, with everything copied, to the first new record."""
    memory: dict[str, int]
    """Proportional set size by role, at rest."""
    rest: dict[str, float]
    """Processor seconds in a minute with nothing to copy, by role."""
    load: dict[str, float]
    """The same with light load on ten topics."""
    delay_p50: float
    """Milliseconds from ``produce()`` to the consumer on the target under that load."""
    delay_p99: float
    new_topic: float
    """From the creation of a topic with one record to that record on the target; the mean of a few."""
    command_seconds: dict[str, float]
    command_cpu: dict[str, float]
    busy: float
    """Load of the machine, over the minute before the end."""


Tell = Callable[[str], None]


def measure(
    source: LocalCluster, target: LocalCluster, topics: int, folder: Path, tell: Tell, *, quick: bool
) -> ScaleRun:
    """Measure one size on clusters that hold nothing else.

    :raises TimeoutError: something is not on the target in time
    :raises RuntimeError: a command failed
    """
    return _Case(source, target, topics, folder, tell, quick=quick).run()


class _Case:
    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        topics: int,
        folder: Path,
        tell: Tell,
        *,
        quick: bool,
    ) -> None:
        self._pids = {
            role: [b.pid for b in cluster.brokers]
            for role, cluster in zip(BROKERS, (source, target), strict=True)
        }
        self._data = Data(source.bootstrap(), target.bootstrap(), topics)
        settings = _SETTINGS.format(journal=folder / "journal")
        self._flow = Flow(
            source.bootstrap(), target.bootstrap(), "scale-.*", "none", folder, settings=settings
        )
        self._tell = tell
        self._ticks: dict[tuple[str, int], int] = {}
        self._share, self._tries = (_QUICK, 1) if quick else (1.0, _TRIES)

    def run(self) -> ScaleRun:
        data, tell = self._data, self._tell
        tell(f"{data.topics:,} topics: writing")
        data.fill()
        with running(Drkit(), self._flow) as replicator:
            first = self._first(replicator)
            until(data.is_copied, _PATIENCE, "all records")
            whole = time.monotonic() - replicator.started_at
            until(lambda: data.groups_are_there(whole=True), _PATIENCE, "all groups")
            groups = time.monotonic() - replicator.started_at
        tell(f"    first record {first:.1f} s, all {whole:.1f} s, groups {groups:.1f} s")
        data.add_samples()
        with running(Drkit(), self._flow) as replicator:
            restart = self._first(replicator)
            tell(f"    restart {restart:.1f} s")
            pause(_SETTLE_SECONDS, "what a start leaves behind is done")
            return self._at_work(replicator, first, whole, groups, restart)

    def _first(self, replicator: Running) -> float:
        """Seconds from its start to a record that was not on the target before."""
        before = self._data.before
        until(
            lambda: self._data.sampled_end() > before, _PATIENCE, "a record on the target",
            every=_LOOK_SECONDS, check=replicator.check,
        )  # fmt: skip
        return time.monotonic() - replicator.started_at

    def _at_work(
        self, replicator: Running, first: float, whole: float, groups: float, restart: float
    ) -> ScaleRun:
        data = self._data
        rest = self._used(replicator, lambda: pause(self._share * REST_SECONDS, "at rest"))
        memory = _memory(replicator)
        self._tell(f"    at rest {rest}, memory {memory}")
        delays: list[float] = []
        load = self._used(replicator, lambda: delays.extend(data.light_load(self._share * LOAD_SECONDS)))
        delays.sort()
        new = [data.new_topic(number, _PATIENCE) for number in range(NEW_TOPICS)]
        self._tell(f"    under load {load}, new topics {new}")
        costs = {
            name: _cost([*words, "--config", str(self._flow.folder / "drkit.toml")], self._tries)
            for name, words in COMMANDS.items()
        }
        self._tell(f"    commands {costs}")
        return ScaleRun(
            data.topics, data.topics * PARTITIONS, data.groups, round(first, 2), round(whole, 2),
            round(groups, 2), round(restart, 2), memory, rest, load, round(percentile(delays, 0.5), 1),
            round(percentile(delays, 0.99), 1), round(sum(new) / len(new), 2),
            {name: round(seconds, 2) for name, (seconds, _) in costs.items()},
            {name: round(cpu, 2) for name, (_, cpu) in costs.items()},
            round(os.getloadavg()[0], 1),
        )  # fmt: skip

    def _used(self, replicator: Running, wait: Callable[[], object]) -> dict[str, float]:
        """Processor seconds for each minute of a wait, by role."""
        began, before = time.monotonic(), self._clocks(replicator)
        wait()
        after, minutes = self._clocks(replicator), (time.monotonic() - began) / 60
        return {role: round((after[role] - before[role]) / minutes, 2) for role in after}

    def _clocks(self, replicator: Running) -> dict[str, float]:
        for role, processes in _by_role(replicator.tree.members()).items():
            self._ticks |= {(role, p.pid): p.ticks for p in processes}
        # A worker that has ended keeps what it had used when it was seen last.
        found = {
            role: sum(ticks for (of, _), ticks in self._ticks.items() if of == role) / TICKS_PER_SECOND
            for role in ROLES
        }
        for role, pids in self._pids.items():
            ticks = sum(parse_stat((PROC / str(pid) / "stat").read_text()).ticks for pid in pids)
            found[role] = ticks / TICKS_PER_SECOND
        return found


def _by_role(members: Sequence[Process]) -> dict[str, list[Process]]:
    """The driver, Spark's JVM, and Spark's Python workers with what forks them."""
    found: dict[str, list[Process]] = {role: [] for role in ROLES}
    for process in members:
        if process.name == "java":
            found["JVM"].append(process)
        else:
            found["tasks" if _is_worker(process.pid) else "driver"].append(process)
    return found


def _is_worker(pid: int) -> bool:
    try:
        return WORKER_MARK in (PROC / str(pid) / "cmdline").read_text()
    except OSError:
        return False


def _memory(replicator: Running) -> dict[str, int]:
    found = _by_role(replicator.tree.members())
    return {role: sum(_pss(p.pid) for p in processes) for role, processes in found.items()}


def _pss(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _cost(words: Sequence[str], tries: int) -> tuple[float, float]:
    """Seconds and processor seconds of a command, the middle one of some tries."""
    tried = sorted(_once(words) for _ in range(tries))
    return tried[tries // 2]


def _once(words: Sequence[str]) -> tuple[float, float]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "drkit", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    error = (process.stderr or sys.stdin.buffer).read()
    _, status, used = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in {0, 1} or b"Traceback" in error:
        raise RuntimeError(f"{' '.join(words)} ended with {code}: {error[-1500:].decode()}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime
