"""`drkit replicate` as a process of its own, as a user would start it, and as a disaster would end it."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import subprocess
import sys

import drkit
from drkit.errors import Failed
from drkit.local.process import Launched

_STOP_SECONDS = 15.0
_EVIDENCE_CHARS = 1500


def environment(folder: Path) -> dict[str, str]:
    """Where programs of the demo find drkit, and where they put what they need for a while."""
    root = str(Path(drkit.__file__).resolve().parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)}


class ReplicatorProcess:
    """Starts, kills and stops one replicator after another.

    Each ends with this process at the latest, however that happens (see :mod:`drkit.local.launcher`).
    """

    def __init__(self, config: Path, folder: Path) -> None:
        self.log = folder / "replicate.log"
        self._folder = folder
        self._command = [sys.executable, "-m", "drkit", "replicate", "--config", str(config)]
        self._process: Launched | None = None

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start it; returns at once."""
        with self.log.open("ab") as log:
            self._process = Launched(self._command, log, environment(self._folder))
        if not self._process.told_pid():
            raise self.failed()

    def kill(self) -> None:
        """SIGKILL: it cannot finish, report or clean up anything."""
        self._signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """SIGTERM: it drains in-flight batches, then exits; killed if that takes too long."""
        self._signal(signal.SIGTERM)
        try:
            self._wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def failed(self) -> Failed:
        """The error if it has ended by itself."""
        text = self.log.read_text(errors="replace")[-_EVIDENCE_CHARS:] if self.log.exists() else ""
        return Failed("demo_replicate_ended", where=" ".join(self._command[1:]), evidence=text)
