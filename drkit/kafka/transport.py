"""kafka-python's connections with larger reads.

The library reads 4 KiB at a time, which for fetch answers of many megabytes is most of the system time
of a copy task. Everything else of its transport stays as it is.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaTCPTransport

_READ_BYTES = 512 * 1024
_READS = 4
"""Then others get their turn; the selector comes back at once while there is more."""


class WideTransport(KafkaTCPTransport):  # type: ignore[misc]
    """A plain TCP transport that reads in large pieces."""

    def _sock_recv(self) -> tuple[bytes, KafkaConnectionError | None]:
        pieces: list[bytes] = []
        for _ in range(_READS):
            try:
                data = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return b"", KafkaConnectionError(error)
            if not data:
                return b"".join(pieces), KafkaConnectionError("socket disconnected")
            pieces.append(data)
            if len(data) < _READ_BYTES:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), None


class WideManager(KafkaConnectionManager):  # type: ignore[misc]
    """Connections whose plain transports read in large pieces; TLS reads a record at a time anyway."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        if type(transport) is KafkaTCPTransport:
            transport.__class__ = WideTransport
        return transport
