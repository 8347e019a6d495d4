"""kafka-python's connections with larger reads, and with a gate before every write.

The library reads 4 KiB at a time and copies what it read four times; for fetch answers of many megabytes
that is most of a copy task's work. Here the bytes of a large answer go from the socket into their frame,
and from there to the record batches with one copy.

What the library was handed for sending waits in a buffer of this process until the socket takes it: a
process that is suspended meanwhile would send it after its deadline, however carefully that was checked
before. Everything else of its transport stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
import ssl
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.frame import KafkaBytes

from drkit.clock import boottime

_READ_BYTES = 512 * 1024
_READS = 4
"""Reads in a row; then other connections have their turn, and the selector returns at once for the rest."""


@dataclass(slots=True)
class SendGate:
    """Until when the connections of a cluster may send."""

    closes_at: float = math.inf
    """As of :func:`drkit.clock.boottime`, which advances while the machine is suspended."""

    @property
    def closed(self) -> bool:
        """Nothing may be sent any more."""
        return boottime() > self.closes_at


class _GatedSend:
    """Sends what is buffered; looks at the gate before each call of the socket."""

    gate: SendGate
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
    """A gated TLS transport; it always reads one record at a time."""

    def _sock_recv(self) -> tuple[bytes, KafkaConnectionError | None]:
        data, error = super()._sock_recv()
        # The library drops an answer after which the broker closed; the answer's end can still be read.
        return data, None if data else error


class _Frame(KafkaBytes):  # type: ignore[misc]
    """An answer as it comes in; reading a part of it copies that part once."""

    _idx: int

    def read(self, nbytes: int | None = None) -> bytes:
        """The next bytes; all that is left without a number."""
        start = self._idx
        stop = len(self) if nbytes is None else min(start + nbytes, len(self))
        self._idx = stop
        with memoryview(self) as view:
            return bytes(view[start:stop])


class WideTransport(_GatedSend, KafkaTCPTransport):  # type: ignore[misc]
    """A gated plain TCP transport that reads in large pieces."""

    def _sock_recv(self) -> tuple[bytes, KafkaConnectionError | None]:
        frame = self._large_frame()
        if frame is None:
            return self._recv_pieces()
        # All bytes but the last are read into the frame. The library reads the last one, and then
        # sees a complete answer.
        at, last = frame.tell(), len(frame) - 1
        with memoryview(frame) as view:
            for _ in range(_READS):
                if at >= last:
                    break
                try:
                    got = self._sock.recv_into(view[at : min(at + _READ_BYTES, last)])
                except (BlockingIOError, InterruptedError):
                    break
                except OSError as error:
                    return b"", KafkaConnectionError(error)
                if not got:
                    return b"", KafkaConnectionError("socket disconnected")
                at += got
        frame.seek(at)
        return self._recv_pieces() if at >= last else (b"", None)

    def _large_frame(self) -> KafkaBytes | None:
        """The frame that is being filled, when it is worth filling it directly."""
        parser = self._protocol.parser if self._protocol is not None else None
        frame = parser._rbuffer if parser is not None and parser._receiving else None  # noqa: SLF001  no public way
        if frame is None or len(frame) < _READ_BYTES:
            return None
        if type(frame) is KafkaBytes:
            frame.__class__ = _Frame
        return frame

    def _recv_pieces(self) -> tuple[bytes, KafkaConnectionError | None]:
        pieces: list[bytes] = []
        for _ in range(_READS):
            try:
                data = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return b"", KafkaConnectionError(error)
            if not data:
                return b"".join(pieces), None if pieces else KafkaConnectionError("socket disconnected")
            pieces.append(data)
            if len(data) < _READ_BYTES:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), None


class WideManager(KafkaConnectionManager):  # type: ignore[misc]
    """Connections with one gate, whose plain transports read in large pieces."""

    gate: SendGate

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        plain = type(transport) is KafkaTCPTransport
        transport.__class__ = WideTransport if plain else GatedTlsTransport
        transport.gate = self.gate
        return transport
