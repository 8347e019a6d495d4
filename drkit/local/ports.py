"""Ports from the system that stay reserved, also while the broker that listens on them is down."""

from __future__ import annotations

from collections.abc import Iterable
import socket
import sys
from typing import Self

HOST = "127.0.0.1"
_SHARED = sys.platform.startswith("linux")


class PortReservation:
    """Ports of the loopback interface, kept by sockets that are bound and never listen.

    Linux lets a second socket bind and listen on such a port when both set SO_REUSEADDR, as Java does,
    but gives it to no socket that asks for "any port". Without this, a client that keeps trying a dead
    broker's port can be given that very port as its own, and the broker could never come back.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        """A free port chosen by the system."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def before_listen(self, ports: Iterable[int]) -> None:
        """Let go of ports that are about to be listened on, where the system needs that."""
        if _SHARED:
            return
        gone = set(ports)
        for held in [each for each in self._held if each.getsockname()[1] in gone]:
            held.close()
            self._held.remove(held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def release(self) -> None:
        """Give all ports back."""
        for held in self._held:
            held.close()
        self._held.clear()
