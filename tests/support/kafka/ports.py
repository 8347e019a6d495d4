"""Addresses at which no Kafka answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import socket
import threading
from typing import Final


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


_BOUND: Final[list[socket.socket]] = []
"""Ports at which nothing listens: as long as they are bound, no broker of another test gets them."""


def closed() -> str:
    """An address at which nothing listens."""
    _BOUND.append(port := socket.socket())
    port.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{port.getsockname()[1]}"
