"""A broker of the pair as its state file remembers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drkit.local.broker import LocalBroker
from drkit.local.node import broker_command
from drkit.local.process import ProcessIdentity
from drkit.local.readiness import ask


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker as the state file remembers it."""

    cluster: str
    node_id: int
    bootstrap: str
    host: str
    port: int
    pid: int
    started: str
    logs: str

    @property
    def process(self) -> ProcessIdentity:
        """The process that was started then."""
        return ProcessIdentity(self.pid, self.started)

    def with_process(self, pid: int) -> BrokerRecord:
        """The same broker, started again."""
        identity = ProcessIdentity.of(pid)
        return replace(self, pid=identity.pid, started=identity.started)

    def launcher(self, java: Sequence[str]) -> LocalBroker:
        """What starts this broker again from its files."""
        home = Path(self.logs)
        host, _, port = self.bootstrap.split(",")[self.node_id].rpartition(":")
        ask_at = (self.host, self.port)
        return LocalBroker(self.node_id, home, broker_command(java, home), ask_at, others=[(host, int(port))])

    def describe(self) -> dict[str, Any]:
        """The broker as data for people: whether it runs, and whether it answers."""
        running = self.process.alive
        answers = running and ask(self.host, self.port) is not None
        return {
            "cluster": self.cluster,
            "broker": self.node_id,
            "bootstrap": self.bootstrap,
            "pid": self.pid,
            "state": "ready" if answers else "silent" if running else "ended",
            "logs": self.logs,
        }
