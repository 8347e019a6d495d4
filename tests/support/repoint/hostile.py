"""Servers and programs that do what no receiver of endpoints should."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
import socket
import sys
import threading

Behaviour = Callable[[socket.socket, threading.Event], None]
_STEP_SECONDS = 0.05


def _drip(connected: socket.socket, ended: threading.Event, first: bytes, again: bytes) -> None:
    """Send something, then a byte now and then, faster than any limit of a single read."""
    connected.recv(65536)
    connected.sendall(first)
    while not ended.wait(_STEP_SECONDS):
        connected.sendall(again)


def drips_a_header(connected: socket.socket, ended: threading.Event) -> None:
    _drip(connected, ended, b"HTTP/1.1 200 OK\r\nX-Long: ", b"x")


def drips_a_body(connected: socket.socket, ended: threading.Event) -> None:
    _drip(connected, ended, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x")


def drips_early_answers(connected: socket.socket, ended: threading.Event) -> None:
    _drip(connected, ended, b"", b"HTTP/1.1 100 Continue\r\n\r\n")


def says_nothing(_connected: socket.socket, ended: threading.Event) -> None:
    ended.wait(60)


def closes(connected: socket.socket, _ended: threading.Event) -> None:
    connected.recv(65536)


def speaks_no_http(connected: socket.socket, _ended: threading.Event) -> None:
    connected.recv(65536)
    connected.sendall(b"\x00\x00\x00\x13\xff\x1b]0;title\x07" * 20)


def answers_without_end(connected: socket.socket, ended: threading.Event) -> None:
    connected.recv(65536)
    connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    with suppress(OSError):
        while not ended.is_set():
            connected.sendall(b"x" * 65536)


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """A server; gives its address."""
    ended = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

    def one(connected: socket.socket) -> None:
        with connected, suppress(OSError):
            behaviour(connected, ended)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hooks/t0p-secret?token=abc"
        ended.set()
        server.shutdown(socket.SHUT_RDWR)


def python(text: str) -> tuple[str, ...]:
    """A program as a command."""
    return (sys.executable, "-S", "-c", text)


PRINTS_A_GIGABYTE = "import os, sys\nfor _ in range(1 << 14): os.write(1, b'x' * (1 << 16))\nprint('end')"
IGNORES_SIGTERM = "import signal, threading\nsignal.signal(15, signal.SIG_IGN)\nthreading.Event().wait(60)"
LEAVES_A_CHILD = (
    "import subprocess, sys\n"
    "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(8)'])\n"
    "print('done')"
)
LEAVES_A_SESSION = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(8)'], start_new_session=True)\n"
    "time.sleep(60)"
)
