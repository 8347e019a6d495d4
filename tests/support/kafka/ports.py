"""Addresses at which no Kafka answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import socket
import threading


class Silent:
    """A port that accepts connections and says nothing, as a frozen broker does."""

    def __init__(self, port: socket.socket) -> None:
        self._port = port
        self.address = f"127.0.0.1:{port.getsockname()[1]}"
        self.asked = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._open.append(self._port.accept()[0])
            except OSError:
                return
            self.asked += 1


@contextmanager
def silent() -> Iterator[Silent]:
    with socket.create_server(("127.0.0.1", 0)) as port:
        yield Silent(port)


def closed() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        return f"127.0.0.1:{port.getsockname()[1]}"
