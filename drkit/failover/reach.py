"""Whether a cluster answers at all, within a second or two, whatever state its brokers are in.

A client that connects waits for a frozen broker until its own patience ends, and tries a refused port again
and again. Here every server is asked once, all at the same time, with fresh connections.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from drkit.config import ClusterSettings
from drkit.kafka.probe import Finding, Kind, probe
from drkit.kafka.security import read_security

SECONDS: Final = 1.0
"""For each step: connecting, the first answer."""
_MOST: Final = 8
"""Servers that are asked; one that answers is enough."""


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
