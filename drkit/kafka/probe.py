"""Finds what is at the other end of host:port, when a client could not connect for an unknown reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
import socket
import ssl
import struct
import threading
from typing import Final, NamedTuple

from drkit.config import ClusterSettings
from drkit.errors import error_text
from drkit.kafka import codes
from drkit.kafka.clients import tls_context
from drkit.kafka.security.settings import Security, Tls, read_security
from drkit.time_limit import begun

_API_VERSIONS: Final = 18
_SASL_HANDSHAKE: Final = 17
_CALLS: Final = 3
"""A TLS handshake and two requests: a conversation takes at most this many times its time limit."""
_MOST_MECHANISMS: Final = 32
_LONGEST_MECHANISM: Final = 64
"""SASL's own names have at most 20 letters (RFC 4422)."""
_LARGEST_ANSWER: Final = 1 << 20
_LINE_SECONDS: Final = 0.5
_CORRELATION: Final = 4
_ANYTHING: Final = "PLAIN"


class ProbeKind(Enum):
    """Result of a probe; the value is the sentence for a user."""

    UNRESOLVED = "the host name does not resolve"
    REFUSED = "nothing listens on this port"
    NO_ROUTE = "no connection within the time"
    SILENT = "the port accepts connections but never answers"
    NEEDS_TLS = "the port speaks TLS, drkit is set to plain text"
    NO_TLS = "the port speaks plain text, drkit is set to TLS"
    UNTRUSTED = "the server's certificate is not trusted"
    REFUSED_TLS = "the server refused the TLS connection"
    NOT_KAFKA = "the port answers, but not as Kafka does"
    NEEDS_SASL = "the listener demands SASL, none is configured"
    NO_SASL = "the listener knows no SASL, but SASL is configured"
    OTHER_MECHANISM = "the listener does not offer this SASL mechanism"
    KAFKA = "a Kafka broker answers"


HINTS: Final = {
    ProbeKind.UNRESOLVED: "correct the host in bootstrap_servers, or the name service",
    ProbeKind.REFUSED: "correct the port in bootstrap_servers, or start the broker",
    ProbeKind.NO_ROUTE: "check the address, routes and firewalls",
    ProbeKind.SILENT: "check whether the broker hangs, or whether the port belongs to something else",
    ProbeKind.NEEDS_TLS: 'set "security.protocol" to SSL or SASL_SSL',
    ProbeKind.NO_TLS: 'set "security.protocol" to PLAINTEXT or SASL_PLAINTEXT, or use the TLS port',
    ProbeKind.UNTRUSTED: 'name the authority in PEM: "ssl.truststore.type" = "PEM",'
    ' "ssl.truststore.location"',
    ProbeKind.REFUSED_TLS: 'the server may ask for a client certificate: "ssl.keystore.location" (PEM)',
    ProbeKind.NOT_KAFKA: "correct the port in bootstrap_servers; it must be a broker's, not a controller's",
    ProbeKind.NEEDS_SASL: 'set "security.protocol" to SASL_PLAINTEXT or SASL_SSL, and "sasl.mechanism"',
    ProbeKind.NO_SASL: 'set "security.protocol" to PLAINTEXT or SSL, or use the SASL listener\'s port',
    ProbeKind.OTHER_MECHANISM: 'set "sasl.mechanism" to one that the listener offers',
}

SETTLED: Final = frozenset(HINTS) - {
    ProbeKind.REFUSED,
    ProbeKind.NO_ROUTE,
    ProbeKind.SILENT,
    ProbeKind.UNRESOLVED,
}
"""Waiting heals none of these."""

ABSENT: Final = frozenset({ProbeKind.REFUSED, ProbeKind.UNRESOLVED})
"""These heal when a broker starts, which takes seconds."""


class ProbeFinding(NamedTuple):
    """The kind of server at one address, and the evidence."""

    server: str
    kind: ProbeKind
    evidence: str = ""


class _NoKafkaError(Exception):
    """The other side closed, or its bytes are no Kafka answer."""


def probe(
    server: str, security: Security, where: str, timeout: float = 2.0, *, handshake: bool = True
) -> ProbeFinding:
    """Look at one server with fresh connections.

    Each step takes at most ``timeout`` seconds, and each of at most two connections three times as long.

    :param where: where the settings are, for errors about certificate files
    :param handshake: also ask which SASL mechanisms are offered; False: send only ApiVersions
    :raises ConfigError: the configured certificate files do not load
    """
    context = tls_context(security.tls, where) if security.tls else None
    try:
        return ProbeFinding(server, *_look(server, security, context, timeout, handshake=handshake))
    except socket.gaierror as error:
        return ProbeFinding(server, ProbeKind.UNRESOLVED, error.strerror or str(error))
    except ConnectionRefusedError as error:
        return ProbeFinding(server, ProbeKind.REFUSED, error.strerror or str(error))
    except TimeoutError:
        return ProbeFinding(server, ProbeKind.NO_ROUTE, f"after {timeout:.0f} s")
    except OSError as error:
        return ProbeFinding(server, ProbeKind.NO_ROUTE, error.strerror or str(error))


def probe_servers(
    settings: ClusterSettings, timeout: float = 2.0, most: int | None = None
) -> list[ProbeFinding]:
    """Probe the bootstrap servers of a cluster, all at the same time.

    :param timeout: see :func:`probe`
    :param most: maximum number of servers to probe, or None for all
    :raises ConfigError: a configured certificate file does not load
    """
    security, where, servers = read_security(settings), f"clusters.{settings.alias}.client", settings.servers
    probes = [begun(partial(probe, server, security, where, timeout)) for server in servers[:most]]
    return [each.result() for each in probes]


def _look(
    server: str, security: Security, context: ssl.SSLContext | None, timeout: float, *, handshake: bool
) -> tuple[ProbeKind, str]:
    with _dial(server, timeout) as plain, _ended_after(plain, timeout):
        try:
            connection = _tls(plain, context, server) if context else plain
            _ask(connection, _API_VERSIONS, 0, b"")
            if not handshake:
                return ProbeKind.KAFKA, ""
            mechanism = security.sasl.mechanism if security.sasl else _ANYTHING
            name = mechanism.encode()
            answer = _ask(connection, _SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
            return _sasl_finding(answer, mechanism if security.sasl else None)
        except ssl.SSLCertVerificationError as error:
            return ProbeKind.UNTRUSTED, error.verify_message
        except TimeoutError:
            return _after_silence(plain, timeout)
        except (_NoKafkaError, OSError) as error:
            return _other_language(
                server, with_tls=context is not None, timeout=timeout, seen=error_text(error)
            )


def _after_silence(connection: socket.socket, timeout: float) -> tuple[ProbeKind, str]:
    """Distinguish a hanging broker from a line-based server, such as HTTP, that waits for a line's end."""
    connection.settimeout(_LINE_SECONDS)
    try:
        connection.sendall(b"\r\n\r\n")
        said = connection.recv(64)
    except OSError:
        said = b""
    if said:
        return ProbeKind.NOT_KAFKA, f"it answers a line break with {said!r}"
    return ProbeKind.SILENT, f"no answer to ApiVersions in {timeout:.0f} s"


def _other_language(server: str, *, with_tls: bool, timeout: float, seen: str) -> tuple[ProbeKind, str]:
    """The configured protocol failed: see whether the other one, TLS or plain text, works."""
    trusting = None if with_tls else tls_context(Tls(verify=False), server)
    try:
        with _dial(server, timeout) as plain, _ended_after(plain, timeout):
            connection = _tls(plain, trusting, server) if trusting else plain
            if trusting:
                return ProbeKind.NEEDS_TLS, f"plain text: {seen}; a TLS handshake succeeds"
            _ask(connection, _API_VERSIONS, 0, b"")
            return ProbeKind.NO_TLS, f"TLS: {seen}; plain text is answered"
    except ssl.SSLError as error:
        # A server that answers a handshake with an alert does speak TLS.
        if "ALERT" in (error.reason or ""):
            return ProbeKind.NEEDS_TLS, f"plain text: {seen}; TLS: {error.reason}"
    except (_NoKafkaError, OSError):
        pass  # neither works: the first finding is the most specific
    if with_tls and "ALERT" in seen.upper():
        return ProbeKind.REFUSED_TLS, seen
    return ProbeKind.NOT_KAFKA, seen


def _sasl_finding(answer: bytes, mechanism: str | None) -> tuple[ProbeKind, str]:
    code, offered = _offered(answer)
    listed = f"offered: {', '.join(offered)}"
    if code == codes.ILLEGAL_SASL_STATE:
        return (ProbeKind.NO_SASL, "SaslHandshake is refused (34)") if mechanism else (ProbeKind.KAFKA, "")
    if mechanism is None:
        return ProbeKind.NEEDS_SASL, listed
    if code == codes.UNSUPPORTED_SASL_MECHANISM:
        return ProbeKind.OTHER_MECHANISM, f"{mechanism}; {listed}"
    return ProbeKind.KAFKA, listed


def _offered(answer: bytes) -> tuple[int, list[str]]:
    try:
        return _parsed(answer)
    except (struct.error, ValueError):
        raise _NoKafkaError(f"its answer to SaslHandshake is {answer[:16]!r}") from None


def _parsed(answer: bytes) -> tuple[int, list[str]]:
    """Raises ValueError, struct.error."""
    code, count = struct.unpack_from(">hi", answer)
    if not 0 <= count <= _MOST_MECHANISMS:
        raise ValueError(count)
    offered, position = [], 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, position)
        name = answer[position + 2 : position + 2 + length]
        if not 0 < length == len(name) <= _LONGEST_MECHANISM:
            raise ValueError(length)
        offered.append(name.decode("ascii"))
        position += 2 + length
    return code, offered


def _dial(server: str, timeout: float) -> socket.socket:
    host, _, port = server.rpartition(":")
    try:
        return socket.create_connection((host.strip("[]"), int(port)), timeout)
    except (ValueError, OverflowError) as error:  # a port or a host name that cannot be
        raise socket.gaierror(socket.EAI_NONAME, f"not an address: {error}") from error


@contextmanager
def _ended_after(connection: socket.socket, timeout: float) -> Iterator[None]:
    """End a conversation in which every single call is in time: a server that sends a byte a second."""
    other = connection.dup()  # TLS takes the first one over
    timer = threading.Timer(_CALLS * timeout, _hang_up, (other,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        other.close()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _tls(plain: socket.socket, context: ssl.SSLContext, server: str) -> ssl.SSLSocket:
    return context.wrap_socket(plain, server_hostname=server.rpartition(":")[0].strip("[]"))


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", key, version, key, 5) + b"drkit" + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    head = _read(connection, 8)
    size, correlation = struct.unpack(">ii", head)
    if correlation != key or not _CORRELATION <= size <= _LARGEST_ANSWER:
        raise _NoKafkaError(f"its first bytes are {head!r}")
    return _read(connection, size - _CORRELATION)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise _NoKafkaError(f"it closed the connection after {len(data)} bytes")
        data += part
    return data
