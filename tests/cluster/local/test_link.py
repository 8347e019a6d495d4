"""A link can be cut, stalled, slowed and left half open, one direction at a time."""

from __future__ import annotations

import socket
import socketserver
import threading
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
import pytest

from drkit.local.link import Direction, Link
from tests.support.waiting import wait_until


class _Echo(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        self.received = b""
        super().__init__(("127.0.0.1", 0), _EchoHandler)


class _EchoHandler(socketserver.BaseRequestHandler):
    server: _Echo

    def handle(self):
        try:
            while data := self.request.recv(65536):
                self.server.received += data
                self.request.sendall(data)
        except ConnectionError:
            pass  # a link that was cut


@pytest.fixture
def echo():
    with _Echo() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def link():
    link = Link("test")
    yield link
    link.close()


@pytest.fixture
def dial(echo, link):
    port = link.add_route(*echo.server_address)
    opened = []

    def connect():
        connection = socket.create_connection(("127.0.0.1", port), 5)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _ask(connection, data=b"hello"):
    connection.sendall(data)
    return _receive(connection, len(data))


def _receive(connection, size):
    found = b""
    while len(found) < size and (data := connection.recv(size - len(found))):
        found += data
    return found


def _is_silent(connection, seconds=0.3):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) is None
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)


@pytest.mark.wide
def test_bytes_pass_unchanged_both_ways(dial):
    blob = bytes(range(256)) * 8192
    connection = dial()
    sender = threading.Thread(target=connection.sendall, args=(blob,))
    sender.start()
    assert _receive(connection, len(blob)) == blob
    sender.join()


@pytest.mark.wide
def test_a_cut_resets_connections_and_refuses_new_ones_until_it_is_restored(dial, link):
    connection = dial()
    assert _ask(connection) == b"hello"
    link.cut()
    assert not link.connections
    with pytest.raises(ConnectionResetError):
        connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        dial()
    link.restore()
    assert _ask(dial()) == b"hello"


@pytest.mark.wide
def test_a_stalled_link_delivers_late_what_it_held_back(dial, link):
    connection = dial()
    _ask(connection)
    link.stall()
    connection.sendall(b"queued")
    assert _is_silent(connection)
    link.restore()
    assert _receive(connection, 6) == b"queued"


@pytest.mark.wide
def test_a_stall_may_be_of_one_route(echo, link):
    ports = [link.add_route(*echo.server_address) for _ in range(2)]
    held, free = (socket.create_connection(("127.0.0.1", port), 5) for port in ports)
    with held, free:
        link.stall(Direction.TO_CLIENT, ports[0])
        held.sendall(b"queued")
        assert _ask(free) == b"hello"
        assert _is_silent(held)
        link.restore()
        assert _receive(held, 6) == b"queued"


@pytest.mark.wide
def test_a_half_open_link_swallows_and_resets_the_damaged_connection_at_the_end(dial, echo, link):
    damaged, untouched = dial(), dial()
    _ask(damaged)
    _ask(untouched)
    link.half_open()
    damaged.sendall(b"lost")
    assert _is_silent(damaged)
    assert b"lost" not in echo.received
    link.restore()
    with pytest.raises(ConnectionResetError):
        damaged.recv(1)
    assert _ask(untouched) == b"hello"


@pytest.mark.wide
def test_a_one_way_link_loses_the_answers_only(dial, echo, link):
    connection = dial()
    _ask(connection)
    link.half_open(Direction.TO_CLIENT)
    connection.sendall(b"heard")
    wait_until(lambda: b"heard" in echo.received, 5)
    assert _is_silent(connection)


@pytest.mark.wide
def test_a_delay_counts_once_per_direction_and_does_not_add_up(dial, link):
    connection = dial()
    _ask(connection)
    link.slow(delay_ms=100)
    began = time.monotonic()
    for _ in range(3):
        connection.sendall(b"hello")
    assert _receive(connection, 15) == b"hello" * 3
    assert 0.2 <= time.monotonic() - began < 0.5


@pytest.mark.wide
def test_a_rate_limit_holds(dial, link):
    connection = dial()
    _ask(connection)
    link.slow(bytes_per_second=20_000)
    began = time.monotonic()
    assert _ask(connection, b"x" * 10_000) == b"x" * 10_000
    assert 0.45 <= time.monotonic() - began < 3
    link.restore()


@pytest.mark.wide
def test_a_dead_upstream_looks_like_a_reset(dial, echo):
    echo.shutdown()
    echo.server_close()
    with pytest.raises(ConnectionResetError):
        dial().recv(1)


@pytest.mark.wide
def test_cutting_one_role_leaves_the_others_alone(cluster_factory):
    cluster = cluster_factory(linked=("PROBE",))
    quiet = {"log_level": 0, "socket.connection.setup.timeout.ms": 1000}
    probe = AdminClient({"bootstrap.servers": cluster.bootstrap("PROBE"), **quiet})
    client = AdminClient({"bootstrap.servers": cluster.bootstrap("CLIENT"), **quiet})
    assert str(probe.list_topics(timeout=10).brokers[0]) == cluster.bootstrap("PROBE") + "/0"

    cluster.link("PROBE").cut()
    with pytest.raises(KafkaException):
        probe.list_topics(timeout=1)
    assert client.list_topics(timeout=10).brokers

    cluster.link("PROBE").restore()
    assert probe.list_topics(timeout=10).brokers
