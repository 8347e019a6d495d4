"""A flow whose replicator and operator reach the primary by links of their own."""

from __future__ import annotations

import os
import signal
from typing import Any

from drkit.flow_state.names import journal_topic
from drkit.journal.entries import RunLog
from tests.support.failover.world import World


class Linked(World):
    """A flow whose replicator and operator reach the primary by links of their own."""

    role = "PROBE"

    def plain(self) -> dict[str, Any]:
        found = super().plain()
        found["clusters"][self.source.alias]["bootstrap_servers"] = self.brokers[0].bootstrap(self.role)
        return found

    def replicate(self) -> None:
        self.role = "REPLICATION"
        try:
            super().replicate()
        finally:
            self.role = "PROBE"

    def last_run(self) -> RunLog | None:
        """The newest run; None before the first one."""
        name = journal_topic(self.source.alias)
        if self.topic(self.target, name).error or not any(self.offsets(self.target, name).values()):
            return None
        return self.run_log()

    def signal(self, number: signal.Signals) -> None:
        """To the replicator."""
        assert self._replicator is not None
        assert self._replicator.poll() is None, self.said()
        os.kill(self._replicator.pid, number)
