"""What a replicator costs: CPU seconds and resident memory of its whole process tree, read from /proc."""

from __future__ import annotations

from dataclasses import dataclass
import os
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
WORKER_MARK: Final = "drkit.spark.worker_daemon"
"""Spark forks its Python workers from this daemon, so they carry its command line."""


class Process(NamedTuple):
    """One process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    name: str
    ticks: int
    """utime + stime, plus those of its children that have ended and were waited for."""
    started: int
    resident_bytes: int


def parse_stat(text: str) -> Process:
    """Parse one /proc/PID/stat line (proc(5)); the name may itself hold spaces and parentheses."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    ticks = sum(int(field) for field in fields[11:15])
    return Process(int(pid), int(fields[1]), name, ticks, int(fields[19]), int(fields[21]) * PAGE_BYTES)


def processes() -> dict[int, Process]:
    """Every process of the machine that is still there while it is read."""
    table = {}
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            try:
                process = parse_stat(Path(entry.path, "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between the listing and the reading
            table[process.pid] = process
    return table


def family(table: dict[int, Process], known: dict[int, int]) -> list[Process]:
    """The processes of ``known`` (pid → start time) that still run, and all their descendants.

    Comparing start times keeps a reused pid out; passing what was known before keeps orphans in.
    """
    members = {pid for pid, started in known.items() if pid in table and table[pid].started == started}
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    queue = list(members)
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in members]
        members.update(fresh)
        queue.extend(fresh)
    return [table[pid] for pid in sorted(members)]


@dataclass(slots=True)
class Memory:
    """Highest resident sets seen, in bytes (shared pages count once per process)."""

    tree: int = 0
    jvm: int = 0
    worker: int = 0
    """The largest single Python worker of Spark: a copy task."""

    def raise_to(self, tree: int, jvm: int, worker: int) -> None:
        """Keep the highest of what was seen."""
        self.tree, self.jvm, self.worker = max(self.tree, tree), max(self.jvm, jvm), max(self.worker, worker)


class ProcessTree:
    """One process, its descendants, and what they have used so far."""

    def __init__(self, root: int) -> None:
        self._known = {root: parse_stat((PROC / str(root) / "stat").read_text()).started}
        self.memory = Memory()

    def members(self) -> list[Process]:
        """The tree as it is now."""
        found = family(processes(), self._known)
        self._known |= {process.pid: process.started for process in found}
        return found

    def cpu_seconds(self) -> float:
        """CPU seconds (user + system) used until now by the tree, ended children included."""
        return sum(process.ticks for process in self.members()) / TICKS_PER_SECOND

    def pss_bytes(self) -> int:
        """Memory that the tree holds now; pages that its processes share count once."""
        return sum(_pss(process.pid) for process in self.members())

    def sample_memory(self) -> None:
        """Look at the resident sets and keep the highest."""
        found = self.members()
        daemons = {process.pid for process in found if _is_worker(process)}
        workers = [process for process in found if process.pid in daemons and process.parent in daemons]
        self.memory.raise_to(
            tree=sum(process.resident_bytes for process in found),
            jvm=sum(process.resident_bytes for process in found if process.name == "java"),
            worker=max((_peak(process) for process in workers), default=0),
        )


def _pss(pid: int) -> int:
    """Proportional set size: of a page that n processes share, each counts one n-th (proc(5))."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _is_worker(process: Process) -> bool:
    try:
        return WORKER_MARK in (PROC / str(process.pid) / "cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _peak(process: Process) -> int:
    """The kernel's own high-water mark: no peak between two samples escapes it."""
    try:
        status = (PROC / str(process.pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return process.resident_bytes
    marks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(marks[0]) * 1024 if marks else process.resident_bytes


def busy_seconds() -> float:
    """CPU seconds used by the whole machine since its start (everything but idle and iowait)."""
    fields = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS_PER_SECOND
