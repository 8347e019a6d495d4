"""kafka-python's connections with larger reads, and with a gate before every write.

The library reads 4 KiB at a time, which for fetch answers of many megabytes is most of the system time
of a copy task. What it was handed for sending waits in a buffer of this process until the socket takes
it: a process that is suspended meanwhile would send it after its deadline, however carefully that was
checked before. Everything else of its transport stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
import ssl
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from drkit.clock import boottime

_READ_BYTES = 512 * 1024
_READS = 4
"""Then others get their turn; the selector comes back at once while there is more."""


@dataclass(slots=True)
class Gate:
    """Until when the connections of a cluster may send."""

    closes_at: float = math.inf
    """As of :func:`drkit.clock.boottime`, which goes on while the machine is suspended."""

    @property
    def closed(self) -> bool:
        """Nothing may be sent any more."""
        return boottime() > self.closes_at


class _GatedSend:
    """Sends what is buffered; looks at the gate before each call of the socket."""

    gate: Gate
    _sock: Any
    _write_buffer: Any

    def _sock_send(self) -> tuple[int, KafkaConnectionError | None]:
        total = 0
        while self._sock is not None and self._write_buffer:
            rest = memoryview(self._write_buffer.popleft())
            while rest:
                if self.gate.closed:
                    self._write_buffer.clear()
                    return total, KafkaConnectionError("the time to send is over")
                try:
                    sent = self._sock.send(rest)
                except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    self._write_buffer.appendleft(rest)
                    return total, None
                except OSError as error:
                    return total, KafkaConnectionError(error)
                total += sent
                rest = rest[sent:]
        return total, KafkaConnectionError("connection closed") if self._sock is None else None


class GatedTlsTransport(_GatedSend, KafkaSSLTransport):  # type: ignore[misc]
    """A TLS transport behind a gate; it reads a record at a time anyway."""


class WideTransport(_GatedSend, KafkaTCPTransport):  # type: ignore[misc]
    """A plain TCP transport behind a gate that reads in large pieces."""

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
    """Connections behind one gate, whose plain transports read in large pieces."""

    gate: Gate

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        plain = type(transport) is KafkaTCPTransport
        transport.__class__ = WideTransport if plain else GatedTlsTransport
        transport.gate = self.gate
        return transport
