"""Which process is this, really? A process id alone is given out again after its process has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import BinaryIO, NamedTuple

from drkit.local import launcher

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


class Launched:
    """Starts the command; :meth:`told_pid` returns when it runs.

    :param console: the file of its output
    :param environment: of the command, or None for that of this process
    """

    def __init__(
        self, command: Sequence[str], console: BinaryIO, environment: Mapping[str, str] | None = None
    ) -> None:
        self.pid = 0
        """The command's process id, or 0 until the launcher has reported it."""
        self._launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=console,
            env=environment,
            start_new_session=True,  # Ctrl-C at a terminal is for drkit, which then ends the command
        )

    @property
    def running(self) -> bool:
        """True if the process exists (a frozen one does)."""
        return self._launcher.poll() is None

    def told_pid(self) -> int:
        """Wait until the command runs; its process id, 0 if it could not be started."""
        line = b""
        with suppress(ValueError):  # another thread has ended it, and closed the pipe
            line = self._launcher.stdout.readline() if self._launcher.stdout else b""
        self.pid = int(line.strip() or 0)
        return self.pid

    def detach(self) -> None:
        """Let the command live on when this process ends."""
        if self._launcher.stdin:
            self._launcher.stdin.write(launcher.DETACH)
            self._launcher.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal; one whose process id is not known yet is killed."""
        if not self.running:
            return
        if not self.pid:  # 0 means all processes of this process's own group
            self.kill_launcher()
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_launcher(self) -> None:
        """SIGKILL the launcher; the kernel ends the command with it."""
        self._launcher.kill()

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code.

        :raises subprocess.TimeoutExpired: it runs on
        """
        self._launcher.wait(seconds)
        for pipe in (self._launcher.stdin, self._launcher.stdout):
            if pipe:
                pipe.close()
        return self._launcher.returncode
