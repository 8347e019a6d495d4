"""Clients of the page that mean no good: of other sites, slow, many, or gone before the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
import socket
import struct
import threading

import pytest

from drkit.monitoring.page import server
from tests.support.monitoring.page_world import World
from tests.support.waiting import eventually


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil", "", "10.0.0.1"])
def test_another_name_for_this_machine_reads_nothing(world: World, host: str):
    """A page of another site gives its own name the address 127.0.0.1 and asks as if it were this one's."""
    code, text, _ = world.get("/status.json", Host=host)
    assert code == 421
    assert "primary" not in text


@pytest.mark.parametrize("host", ["localhost", "localhost:9404", "127.0.0.1:1", "[::1]:9404", "LOCALHOST."])
def test_the_names_of_this_machine_read_everything(world: World, host: str):
    assert world.get("/status.json", Host=host)[0] == 200


def test_no_other_page_frames_it(world: World):
    headers = world.get("/")[2]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"


def test_slow_clients_are_capped_and_hung_up_on(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "_TOTAL_SECONDS", 2.0)
    slow = [socket.create_connection(("127.0.0.1", world.server.port)) for _ in range(server._MOST_CLIENTS)]
    before = threading.active_count()
    for each in slow:
        each.sendall(b"G")
    more = [socket.create_connection(("127.0.0.1", world.server.port)) for _ in range(10)]
    for each in more:
        each.settimeout(10)
        with suppress(ConnectionError):
            assert each.recv(1) == b""  # closed at once
    assert threading.active_count() <= before + 2 * server._MOST_CLIENTS

    def has_room() -> bool:
        with suppress(ConnectionError):  # closed at once, as long as there is none
            return world.get("/healthz")[0] == 200
        return False

    eventually(has_room, 30, "the slow ones are hung up on")
    for each in (*slow, *more):
        each.close()


def test_a_client_that_hangs_up_is_no_news(world: World, capsys: pytest.CaptureFixture[str]):
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", world.server.port)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert world.get("/healthz")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(world: World, method: str):
    code, text, headers = world.get("/", method)
    assert (code, headers["Allow"], "nothing can be changed" in text) == (405, "GET, HEAD", True)
