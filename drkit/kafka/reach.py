"""Whether a cluster answers at all, within a second or two, whatever state its brokers are in.

A client that connects waits for a frozen broker until its own patience ends, and tries a refused port again
and again. Here every server is asked once, all at the same time, with fresh connections.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from drkit.config import ClusterSettings
from drkit.kafka.probe import ProbeFinding, ProbeKind, probe
from drkit.kafka.raw import RawCluster
from drkit.kafka.security.settings import read_security

SECONDS: Final = 1.0
"""For each step: connecting, the first answer."""
ANSWER_MS: Final = 10_000
"""Of a cluster that was reached."""
_MOST: Final = 8
"""Servers that are asked; one that answers is enough."""
_REFUSES_US: Final = frozenset({
    ProbeKind.NEEDS_TLS, ProbeKind.NO_TLS, ProbeKind.UNTRUSTED, ProbeKind.REFUSED_TLS,
    ProbeKind.NEEDS_SASL, ProbeKind.NO_SASL, ProbeKind.OTHER_MECHANISM,
})  # fmt: skip
"""A server answers, but the configured settings do not fit it."""


class Impatient(RawCluster):
    """Connections to a cluster that may be dying: no answer is waited for longer than some seconds."""

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int = 30_000) -> Any:
        """See :class:`RawCluster`."""
        return await super().send(request, node_id, timeout_ms=min(timeout_ms, ANSWER_MS))


class Reached(NamedTuple):
    """How a cluster can be reached now."""

    settings: ClusterSettings
    """With only the servers that answer, so that no client waits for another one."""
    silence: str
    """Why no server answers; empty when one does."""
    blind: bool = False
    """No server was seen to be gone: something refuses the connection, or no name resolves."""


def reach(settings: ClusterSettings, seconds: float = SECONDS) -> Reached:
    """Ask every server once.

    :raises ConfigError: certificate files that do not load
    """
    security = read_security(settings)
    servers = [s.strip() for s in settings.bootstrap_servers.split(",")][:_MOST]
    where = f"clusters.{settings.alias}"

    def look(server: str) -> ProbeFinding:
        return probe(server, security, where, seconds)

    with ThreadPoolExecutor(len(servers)) as pool:
        found = list(pool.map(look, servers))
    if answering := [f.server for f in found if f.kind is ProbeKind.KAFKA]:
        return Reached(settings.model_copy(update={"bootstrap_servers": ",".join(answering)}), "")
    told = (f"{f.server}: {f.kind.value}{f' ({f.evidence})' if f.evidence else ''}" for f in found)
    kinds = {f.kind for f in found}
    return Reached(
        settings, "; ".join(told), blind=bool(kinds & _REFUSES_US) or kinds == {ProbeKind.UNRESOLVED}
    )
