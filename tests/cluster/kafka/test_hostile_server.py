"""Servers that answer what no broker answers: each look at them ends, soon and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
import socket
import struct
import threading
import time

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.probe import ProbeKind, probe
from drkit.kafka.security.settings import read_security

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "p",
}


@contextmanager
def serving(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                behave(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def answering(handshake: bytes) -> Callable[[socket.socket], None]:
    """ApiVersions as a broker answers it, then this to SaslHandshake."""

    def behave(connection: socket.socket) -> None:
        for key, body in ((18, struct.pack(">hi", 0, 0)), (17, handshake)):
            connection.recv(1000)
            connection.sendall(struct.pack(">ii", len(body) + 4, key) + body)

    return behave


def look(server: str, seconds: float) -> ProbeKind:
    settings = ClusterSettings(alias="a", bootstrap_servers=server, client=LOGIN)
    return probe(server, read_security(settings), "clusters.a", seconds).kind


@pytest.mark.parametrize(
    "handshake",
    [
        struct.pack(">hi", 33, 1 << 30) + struct.pack(">h", 0) * 500_000,
        struct.pack(">hi", 33, 500_000) + struct.pack(">h", 0) * 500_000,
        struct.pack(">hi", 33, 1) + struct.pack(">h", 30_000) + b"A" * 30_000,
        struct.pack(">hi", 33, -1),
        struct.pack(">hih", 33, 1, -5) + b"PLAIN",
        struct.pack(">hih", 33, 1, 5) + b"PL",
        struct.pack(">hih", 33, 1, 2) + b"\xff\xfe",
        b"",
    ],
)
def test_mechanisms_that_cannot_be(handshake: bytes):
    with serving(answering(handshake)) as server:
        assert look(server, 5.0) is ProbeKind.NOT_KAFKA


def test_mechanisms_that_can():
    offered = b"".join(struct.pack(">h", len(name)) + name for name in (b"PLAIN", b"SCRAM-SHA-512"))
    with serving(answering(struct.pack(">hi", 0, 2) + offered)) as server:
        assert look(server, 5.0) is ProbeKind.KAFKA


def test_a_byte_now_and_then_does_not_hold_up_a_look():
    """Each call to the socket is in time; all of them together took hours."""

    pause = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(1000)
        for byte in struct.pack(">ii", 1 << 19, 18) + bytes(1 << 19):
            connection.sendall(bytes([byte]))
            pause.wait(0.1)

    began = time.monotonic()
    with serving(drip) as server:
        assert look(server, 0.5) is ProbeKind.NOT_KAFKA
    assert time.monotonic() - began < 30
