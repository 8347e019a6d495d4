"""When a primary counts as lost: heartbeats, probes, and the listeners to look at."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PositiveFloat

from drkit.config.tables.client_properties import masked
from drkit.config.tables.cluster import ClientText, ClusterSettings
from drkit.config.tables.fields import Alias, Servers, Strict


class ListenerSettings(Strict):
    """One more listener of a cluster that probes look at, such as the one that its clients use."""

    cluster: Alias
    """Alias of the cluster."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
    """What it is called in messages."""
    bootstrap_servers: Servers
    """host:port of some brokers on this listener: an array, or one string with commas."""
    client: ClientText = Field(default_factory=dict)
    """Kafka's client properties, where they differ from the cluster's."""

    def reached(self, cluster: ClusterSettings) -> ClusterSettings:
        """The cluster through this listener."""
        return cluster.with_client({**self.client, "bootstrap.servers": self.bootstrap_servers})

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(n, masked(self.client) if n == "client" else v) for n, v in super().__repr_args__()]


class DetectionSettings(Strict):
    """When a primary counts as lost. Heartbeats raise the suspicion, probes confirm it."""

    probe_interval_seconds: PositiveFloat = 1.0
    """How often each broker is probed on each listener."""
    probe_timeout_seconds: PositiveFloat = 2.0
    """How long each step of a probe may take."""
    confirm_seconds: PositiveFloat = 5.0
    """How long probes must fail without a single success; shorter pauses and restarts raise no alarm."""
    canary: bool = True
    """Produce a record to every broker and fetch it back, in the topic ``drkit-canary.internal``; false: only
    ask who it is."""
    phi_threshold: PositiveFloat = 8.0
    """Suspicion from which on heartbeats are late: 8 is one error in a hundred million beats."""
    phi_window: int = Field(300, ge=10)
    """How many intervals between heartbeats are remembered."""
    phi_min_deviation_seconds: PositiveFloat = 0.5
    """The arrivals of heartbeats are never taken as more regular than this."""
    phi_pause_seconds: float = Field(3.0, ge=0)
    """Silence that is always tolerated."""
    listeners: tuple[ListenerSettings, ...] = ()
    """Other listeners to look at."""
