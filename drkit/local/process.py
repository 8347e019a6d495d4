"""Which process is this, really? A process id alone is given out again after its process has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
import os
from pathlib import Path
import signal
import subprocess
import time
from typing import NamedTuple

_POLL_SECONDS = 0.05
_STILL = "TtZX"
"""States of proc(5) in which a thread does nothing: stopped, traced, ended."""


class ProcessIdentity(NamedTuple):
    """A process id and when that process started, in the system's own words."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The process that has this id now."""
        return cls(pid, _started(pid))

    @property
    def alive(self) -> bool:
        """Whether this very process exists and is no zombie."""
        return bool(self.started) and _started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process; nothing happens when it has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait_ended(self, deadline: float) -> bool:
        """Wait for its end until ``deadline`` (:func:`time.monotonic`); whether it came."""
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def wait_stopped(pid: int, deadline: float) -> bool:
    """Wait until every thread of a process that got SIGSTOP is stopped; returns whether all are.

    The signal takes effect late: a thread that runs on another processor continues until that one checks.

    :param deadline: as of :func:`time.monotonic`
    """
    while not all(state in _STILL for state in _thread_states(pid)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _thread_states(pid: int) -> Iterator[str]:
    """State of each thread (field 3 of proc(5)); none where there is no /proc."""
    for stat in Path("/proc", str(pid), "task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            yield stat.read_text(errors="replace").rpartition(")")[2].split()[0]


def _started(pid: int) -> str:
    """The start time of a process, as text; empty if it does not exist or is a zombie."""
    if pid <= 0:
        return ""
    stat = Path("/proc", str(pid), "stat")
    if not Path("/proc/self/stat").exists():
        return _started_by_ps(pid)
    try:
        # The name in parentheses may itself hold spaces and parentheses.
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # Fields 3 (state) and 22 (start time in ticks since the boot) of proc(5).
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "" if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _started_by_ps(pid: int) -> str:
    # macOS has no /proc. Its clock of whole seconds is the best there is.
    found = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()
