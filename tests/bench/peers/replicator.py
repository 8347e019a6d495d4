"""A replicator under measurement: a process started like a user's, its log, its process tree, its stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
import os
from pathlib import Path
import signal
import subprocess
import time
from typing import Final, Protocol

from tests.bench.process_tree import ProcessTree

STOP_SECONDS: Final = 20.0
LOG_TAIL: Final = 2_000


@dataclass(frozen=True, slots=True)
class Flow:
    """What a replicator copies, and where it may keep its files."""

    source: str
    """Bootstrap servers of the source."""
    target: str
    topic: str
    codec: str
    folder: Path
    epoch_seconds: float | None = None
    """drkit's epoch length, or None for its default; MM2 has nothing like it."""
    settings: str = ""
    """More lines of drkit's flow."""


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a replicator."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)


class Peer(Protocol):
    """One of the compared replicators."""

    @property
    def name(self) -> str:
        """Short name used in tables and files."""

    def prepare(self, flow: Flow) -> Command:
        """Write the configuration for this flow and say how to start."""


class ReplicatorDied(RuntimeError):
    """The replicator ended by itself; the message holds the end of its log."""


class Running:
    """A started replicator."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.started_at = time.monotonic()
        self.tree = ProcessTree(process.pid)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    def check(self) -> None:
        """Raise :class:`ReplicatorDied` when the process is gone."""
        if self._process.poll() is not None:
            tail = self._log.read_text(errors="replace")[-LOG_TAIL:]
            raise ReplicatorDied(f"it ended with exit code {self._process.returncode}, its log with:\n{tail}")

    def kill(self) -> None:
        """SIGKILL to all processes of the tree at once."""
        for process in self.tree.members():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL to whatever of the tree is left: no process outlives its measurement."""
        self.tree.members()  # remembers the tree, so that orphans are found again
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.kill()


@contextmanager
def running(peer: Peer, flow: Flow) -> Iterator[Running]:
    """Start a replicator, hand it out, stop it and all its children."""
    flow.folder.mkdir(parents=True, exist_ok=True)
    command = peer.prepare(flow)
    log = flow.folder / f"{peer.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command.argv,
            env={**os.environ, **command.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=flow.folder,
        )
    replicator = Running(process, log)
    try:
        yield replicator
    finally:
        replicator.stop()
