"""Connections of one worker process to both clusters, kept from epoch to epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
import math

from drkit.config import ClusterSettings
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.model import TopicPartition


@dataclass(slots=True)
class WorkerLinks:
    """Connections of one worker process, kept from epoch to epoch.

    Fetch and Produce have their own: a long poll or a full pipe must not hold up small requests.
    """

    loop: EventLoop
    source: RawCluster
    fetch: RawCluster
    target: RawCluster
    produce: RawCluster
    unavailable: set[TopicPartition] = field(default_factory=set)
    """Source partitions that an epoch has reported as unavailable and none as available since."""

    @classmethod
    def open(cls, source: ClusterSettings, target: ClusterSettings) -> WorkerLinks:
        """Connections to both clusters, not yet connected."""
        loop = EventLoop()
        return cls(
            loop,
            RawCluster(loop, source, "source"),
            RawCluster(loop, source, "fetch"),
            RawCluster(loop, target, "target"),
            RawCluster(loop, target, "append"),
        )

    async def connect(self) -> None:
        """Connect what is not connected."""
        clusters = self.source, self.fetch, self.target, self.produce
        await self.loop.together(lambda cluster: cluster.connected(), clusters)

    def open_gates(self) -> None:
        """Allow requests; the task before may have closed the gates."""
        self.produce.gate.closes_at = self.target.gate.closes_at = math.inf

    def close_gates_at(self, deadline: float) -> None:
        """Send nothing to the target after a deadline, as of :func:`drkit.clock.boottime`."""
        self.produce.gate.closes_at = self.target.gate.closes_at = deadline

    def close(self) -> None:
        """Close everything."""
        for cluster in (self.source, self.fetch, self.target, self.produce):
            cluster.close()
        self.loop.close()
