"""A copy task in a process of its own, and waiting for what it does."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from typing import Any

from tests.support.warm import WarmProcess

_ROOT = Path(__file__).parents[3]


def take_interrupts() -> None:
    """For `preexec_fn`: a test run in the background ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def tree(root: int) -> list[int]:
    """A process and all below it, by what the system says now."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, rest = int(stat.parent.name), stat.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(rest[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL, one right after the other."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Replicator:
    """`drkit replicate` as its user runs it, Spark's workers included."""

    def __init__(self, config: Path, said: Path) -> None:
        self._said, self._begins = said, said.stat().st_size if said.exists() else 0
        with said.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "drkit", "replicate", "--config", str(config)],
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env={**os.environ, "TMPDIR": str(said.parent)},
            )

    def alive(self) -> bool:
        """True; anything else is a failure of the test, which shows what it said."""
        assert self._process.poll() is None, self._said.read_text(errors="replace")[-3000:]
        return True

    def copies(self) -> bool:
        """Whether it has begun to copy; until then it ends where a cluster does not answer."""
        assert self.alive()
        return b"records_per_second" in self._said.read_bytes()[self._begins :]

    def pids(self) -> list[int]:
        """Of its whole process tree."""
        return tree(self._process.pid) if self._process.poll() is None else []

    def kill(self) -> None:
        """SIGKILL the whole tree."""
        kill_all(self.pids())
        self._process.wait()


class CopyProcess:
    """A copy task in a process of its own, to be killed or frozen."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = WarmProcess(
            "tests.support.flows.run_copy", stdin=json.dumps(job).encode(), out=self._out.fileno()
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ended_within(self, seconds: float) -> bool:
        """Let it run for some seconds; whether it ended in that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill_after(self, seconds: float) -> bool:
        """SIGKILL it after some seconds; False when it had ended before."""
        if self.ended_within(seconds):
            return False
        self.kill()
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def report(self, seconds: float = 90.0) -> dict[str, Any]:
        """Wait for its end and return what it said."""
        code = self._process.wait(seconds)
        self._out.seek(0)
        said = self._out.read().decode(errors="replace")
        assert code == 0, said[-3000:]
        lines = [line for line in said.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def told(self, most: int = 1500) -> str:
        """The state of the process, and the end of its output; does not move the file's read position."""
        fd = self._out.fileno()
        said = os.pread(fd, most, max(0, os.fstat(fd).st_size - most)).decode(errors="replace")
        return f"copy task {'runs' if self.running else 'has ended'}; it said: {said}"

    def close(self) -> None:
        if self.running:
            self.kill()
        self._out.close()
