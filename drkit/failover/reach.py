"""Whether a cluster answers at all, within a second or two, whatever state its brokers are in.

A client that connects waits for a frozen broker until its own patience ends, and tries a refused port again
and again. Here every server is asked once, all at the same time, with fresh connections.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from drkit.config import ClusterSettings
from drkit.kafka.probe import Finding, Kind, probe
from drkit.kafka.raw import RawCluster
from drkit.kafka.security import read_security

SECONDS: Final = 1.0
"""For each step: connecting, the first answer."""
ANSWER_MS: Final = 10_000
"""Of a source that was reached."""
_MOST: Final = 8
"""Servers that are asked; one that answers is enough."""


class Impatient(RawCluster):
    """Connections to a cluster that may be dying: no answer is waited for longer than some seconds."""

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int = 30_000) -> Any:
        """See :class:`RawCluster`."""
        return await super().send(request, node_id, timeout_ms=min(timeout_ms, ANSWER_MS))


def unreachable(settings: ClusterSettings, seconds: float = SECONDS) -> str:
    """Why no server answers; empty when one does.

    :raises ConfigError: certificate files that do not load
    """
    security = read_security(settings)
    servers = settings.bootstrap_servers.split(",")[:_MOST]
    where = f"clusters.{settings.alias}"

    def look(server: str) -> Finding:
        return probe(server, security, where, seconds)

    with ThreadPoolExecutor(len(servers)) as pool:
        found = list(pool.map(look, servers))
    if any(f.kind is Kind.KAFKA for f in found):
        return ""
    return "; ".join(f"{f.server}: {f.kind.value}{f' ({f.evidence})' if f.evidence else ''}" for f in found)
