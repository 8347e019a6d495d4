"""Is a broker ready? Ask it: one Metadata request over a plain socket."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_METADATA = 3
_VERSION = 1  # the first one that names the controller; the newest without tagged fields is not needed here
_HEADER = struct.Struct(">hhih")
_INT = struct.Struct(">i")


class ClusterView(NamedTuple):
    """The cluster as one broker sees it: unfenced brokers only."""

    node_ids: frozenset[int]
    controller_id: int


def ask(host: str, port: int, timeout: float = 1.0) -> ClusterView | None:
    """The broker's view, or None when it does not answer within ``timeout`` seconds."""
    request = _HEADER.pack(_METADATA, _VERSION, 1, -1) + _INT.pack(0)
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(_INT.pack(len(request)) + request)
            with connection.makefile("rb") as answers:
                (size,) = _INT.unpack(answers.read(_INT.size))
                return _parse(answers.read(size))
    except (OSError, struct.error):
        return None  # not listening yet, or it closed half way through an answer


def listens(host: str, port: int, timeout: float = 1.0) -> bool:
    """Whether the port accepts connections; a listener with SASL or TLS shows no more than that."""
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def _parse(answer: bytes) -> ClusterView:
    _correlation, count = struct.unpack_from(">ii", answer)
    position = 8
    nodes = set()
    for _ in range(count):
        (node,) = _INT.unpack_from(answer, position)
        nodes.add(node)
        position = _skip_string(answer, position + 4) + 4
        position = _skip_string(answer, position)
    (controller,) = _INT.unpack_from(answer, position)
    return ClusterView(frozenset(nodes), controller)


def _skip_string(data: bytes, position: int) -> int:
    length: int
    (length,) = struct.unpack_from(">h", data, position)
    return position + 2 + max(length, 0)
