"""kafka-python's connections with larger reads, and with a gate before every write.

The library reads 4 KiB at a time and copies what it read four times; for fetch answers of many megabytes
that is most of a copy task's work. Here the bytes of a large answer go from the socket into their frame,
and from there to the record batches with one copy.

What the library was handed for sending waits in a buffer of this process until the socket takes it: a
process that is suspended meanwhile would send it after its deadline, however carefully that was checked
before.

An answer has the size of what was asked for, and a margin: a hostile broker makes fifty times as much memory
of the smallest entries. Everything else of the library stays as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
import math
import ssl
import struct
import threading
from typing import Any, Final

from kafka.errors import InvalidReceiveError, KafkaConnectionError
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest, SaslHandshakeRequest

from drkit.clock import boottime

_ASK: Final[ContextVar[Callable[[], None] | None]] = ContextVar("permit", default=None)


@contextmanager
def permitted_by(ask: Callable[[], None] | None) -> Iterator[None]:
    """Run this check before each request of this thread to a cluster, for as long as the context lasts.

    A process that was suspended resumes in the middle of a decision that is outdated by then.

    :param ask: raises if no request may be sent any more, or None for no check
    """
    before = _ASK.set(ask)
    try:
        yield
    finally:
        _ASK.reset(before)


def may_send() -> None:
    """Run the check, if one is set. Raises the error of the check."""
    if (ask := _ASK.get()) is not None:
        ask()


_READ_BYTES = 512 * 1024
_READS = 4
"""Maximum reads in a row; then other connections are served, before the selector returns for the rest."""
_MARGIN: Final = 1 << 20
_MOST_BYTES: Final = 64 << 20
"""Of lists whose length no request names, such as all topics or all groups."""
_MOST_OF_BATCH: Final = 256 << 20
"""Of a record batch that is larger than what was asked for: it is sent whole (KIP-74)."""
_ABORTED: Final = 4
"""At most this part of the records in a fetch is the size of its list of aborted transactions."""
_GROWS: Final = 16
"""An entry of such an answer is at most this much larger than that of its request."""
_READS_OF_BATCH: Final = 100_000
_READS_OF_PARTITION: Final = 100


class _ReadBuffer(threading.local):
    """The buffer of a thread: `recv` allocates what it may get and shrinks it, which fragments the heap."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ_BYTES))


_BUFFER: Final = _ReadBuffer()


@dataclass(slots=True)
class SendGate:
    """Until when the connections of a cluster may send."""

    closes_at: float = math.inf
    """As of :func:`drkit.clock.boottime`, which advances while the machine is suspended."""

    @property
    def closed(self) -> bool:
        """Return whether sending is no longer allowed."""
        return boottime() > self.closes_at


class _GatedSend:
    """Sends buffered bytes; checks the gate before each socket call."""

    gate: SendGate
    _sock: Any
    _write_buffer: Any

    def _sock_send(self) -> tuple[int, KafkaConnectionError | None]:
        total = 0
        while self._sock is not None and self._write_buffer:
            unsent = memoryview(self._write_buffer.popleft())
            while unsent:
                if self.gate.closed:
                    self._write_buffer.clear()
                    return total, KafkaConnectionError("the time to send is over")
                try:
                    sent = self._sock.send(unsent)
                except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    self._write_buffer.appendleft(unsent)
                    return total, None
                except OSError as error:
                    return total, KafkaConnectionError(error)
                total += sent
                unsent = unsent[sent:]
        return total, KafkaConnectionError("connection closed") if self._sock is None else None


class GatedTlsTransport(_GatedSend, KafkaSSLTransport):  # type: ignore[misc]
    """A gated TLS transport; it always reads one record at a time."""

    def _sock_recv(self) -> tuple[bytes, KafkaConnectionError | None]:
        data, error = super()._sock_recv()
        if error is not None and isinstance(error.args[0], KeyboardInterrupt):  # a signal, not the socket
            raise error.args[0]
        # If the broker closes after a response, the library drops it; the rest of it can still be read.
        return data, None if data else error


class _Frame(KafkaBytes):  # type: ignore[misc]
    """A response being received; reading a part of it copies that part once."""

    _idx: int

    def read(self, nbytes: int | None = None) -> bytes:
        """Return the next bytes, or all remaining ones without a number."""
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
        filled, last = frame.tell(), len(frame) - 1
        with memoryview(frame) as view:
            for _ in range(_READS):
                if filled >= last:
                    break
                try:
                    received = self._sock.recv_into(view[filled : min(filled + _READ_BYTES, last)])
                except (BlockingIOError, InterruptedError):
                    break
                except OSError as error:
                    return b"", KafkaConnectionError(error)
                if not received:
                    return b"", KafkaConnectionError("socket disconnected")
                filled += received
        frame.seek(filled)
        return self._recv_pieces() if filled >= last else (b"", None)

    def _large_frame(self) -> KafkaBytes | None:
        """Return the frame being received if it is large enough to fill directly, else None."""
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
                got = self._sock.recv_into(_BUFFER.view)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return b"", KafkaConnectionError(error)
            if not got:
                return b"".join(pieces), None if pieces else KafkaConnectionError("socket disconnected")
            pieces.append(bytes(_BUFFER.view[:got]))
            if got < _READ_BYTES:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), None


def most_bytes(request: Any, size: int) -> int:
    """Return how large the answer to a request may be.

    :param size: of the request
    """
    match request:
        case FetchRequest():
            return int(request.max_bytes + request.max_bytes // _ABORTED + _MARGIN)
        case MetadataRequest():
            named = request.topics
            return _MOST_BYTES if named is None else min(_MOST_BYTES, _MARGIN * (1 + len(named)))
        case ProduceRequest():
            return _MARGIN + size
        case ListOffsetsRequest() | FindCoordinatorRequest():
            return _MARGIN + _GROWS * size
        case ApiVersionsRequest() | SaslHandshakeRequest() | SaslAuthenticateRequest() | SaslBytesRequest():
            return _MARGIN
    return _MOST_BYTES


class SizedProtocol(KafkaProtocol):  # type: ignore[misc]
    """The library's protocol, which refuses an answer by what its request asked for."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._asked: deque[tuple[Any, int]] = deque()
        """Requests without an answer, and the limit of each."""

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Encode a request."""
        number: int = super().send_request(request, correlation_id)
        if request.expect_response():
            self._asked.append((request, most_bytes(request, len(self.bytes_to_send[-1]))))
        return number

    def _validate_frame_size(self, nbytes: int) -> None:
        request, limit = self._asked[0] if self._asked else (None, -1)
        most = max(limit, _MOST_OF_BATCH) if isinstance(request, FetchRequest) else limit
        if not 0 <= nbytes <= most:
            raise InvalidReceiveError(f"an answer of {nbytes:,} bytes, at most {most:,} were asked for")

    def _process_response(self, read_buffer: KafkaBytes) -> Any:
        request, limit = self._asked.popleft()
        if len(read_buffer) > limit:
            self._refuse_many_entries(request, read_buffer)
        return super()._process_response(read_buffer)

    def _refuse_many_entries(self, request: Any, answer: KafkaBytes) -> None:
        """Refuse a large answer to a fetch that is large by anything else than a batch."""
        header = self.in_flight_requests[0]
        kind, version = header.get_response_class(), header.request_api_version
        partitions = sum(len(topic.partitions) for topic in request.topics)
        reader = _FewReads(answer, _READS_OF_BATCH + _READS_OF_PARTITION * partitions)
        kind.parse_header(reader)
        is_flexible = kind.flexible_version_q(version)
        with suppress(ValueError, struct.error):  # the library's faster decoder names what is malformed
            kind._struct.decode(  # noqa: SLF001  it alone reads field by field
                reader, version=version, compact=is_flexible, tagged=is_flexible, data_class=kind[None]
            )


class _FewReads:
    """Reader of an answer that gives up after a number of fields."""

    def __init__(self, answer: KafkaBytes, most: int) -> None:
        self._answer, self._at, self._left = answer, 0, most

    def read(self, nbytes: int) -> bytes:
        """The next bytes."""
        self._left -= 1
        start, self._at = self._at, self._at + nbytes
        if not self._left or not start <= self._at <= len(self._answer):
            raise InvalidReceiveError(f"an answer of {len(self._answer):,} bytes is not one large batch")
        with memoryview(self._answer) as view:
            return bytes(view[start : self._at])


class SizedConnection(KafkaConnection):  # type: ignore[misc]
    """A connection whose answers have a limit each."""

    def connection_made(self, transport: Any) -> None:
        """Called when the connection is made."""
        super().connection_made(transport)
        self.parser = SizedProtocol(client_id=self.config["client_id"])


class WideManager(KafkaConnectionManager):  # type: ignore[misc]
    """Connections with one gate and limited answers, whose plain transports read in large pieces."""

    gate: SendGate
    closed = False
    """Set by the library at the end of its constructor."""

    def close_idle_connections(self) -> None:
        """Close idle connections, and again later, until the manager is closed: the library never ends."""
        if not self.closed:
            super().close_idle_connections()

    async def _connect(self, node: Any, conn: KafkaConnection, **more: Any) -> None:
        conn.__class__ = SizedConnection
        await super()._connect(node, conn, **more)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        plain = type(transport) is KafkaTCPTransport
        transport.__class__ = WideTransport if plain else GatedTlsTransport
        transport.gate = self.gate
        return transport
