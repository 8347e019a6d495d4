"""A TCP link between clients and brokers that can be cut, stalled, slowed or left half open."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from enum import Flag
import socket
import struct
import threading
from typing import Any, TypeVar

from drkit.local.ports import HOST, PortReservation

_CHUNK = 256 * 1024
_CHUNKS_IN_FLIGHT = 64
_CALL_SECONDS = 10.0
_PACE_SECONDS = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_T = TypeVar("_T")


class Direction(Flag):
    """Which way bytes go."""

    NONE = 0
    TO_BROKER = 1
    TO_CLIENT = 2
    BOTH = 3


class Link:
    """One link with a route (a port of its own) per broker; all share its faults, only a stall may be of one.

    It runs on an event loop in a thread of its own; every method may be called from any thread and
    returns when the fault is in force. Between faults: a transparent proxy.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.delay_ms = 0.0
        self.bytes_per_second = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"link-{name}", daemon=True)
        self._ports = PortReservation()
        self._routes: dict[int, tuple[str, int]] = {}
        self._servers: list[asyncio.Server] = []
        self.connections: set[_Connection] = set()
        self.stalled = self.swallowing = Direction.NONE
        self.stalled_route: int | None = None
        self.flowing = asyncio.Event()
        self.passed = {Direction.TO_BROKER: 0, Direction.TO_CLIENT: 0}
        """Bytes that were delivered."""
        self._thread.start()

    def add_route(self, host: str, port: int) -> int:
        """Listen on a port that leads to ``host:port``; returns it. It stays the same until :meth:`close`."""
        own = self._ports.reserve()
        self._routes[own] = (host, port)
        self._call(self._listen(own))
        return own

    def cut(self) -> None:
        """Reset every connection, refuse new ones."""
        self._call(self._cut())

    def stall(self, direction: Direction = Direction.BOTH, route: int | None = None) -> None:
        """Hold all bytes back, as a network partition does; :meth:`restore` delivers them late.

        :param route: only those of this route, by its port
        """
        self._call(self._set_faults(direction, Direction.NONE, route))

    def half_open(self, direction: Direction = Direction.BOTH) -> None:
        """Swallow all bytes while connections look alive; :meth:`restore` resets those that lost some."""
        self._call(self._set_faults(Direction.NONE, direction))

    def slow(self, *, delay_ms: float = 0.0, bytes_per_second: float = 0.0) -> None:
        """Delay every byte each way, limit the rate each way per connection; 0 is no delay and no limit."""
        self.delay_ms = delay_ms
        self.bytes_per_second = bytes_per_second

    def restore(self) -> None:
        """No fault any more."""
        self.slow()
        self._call(self._restore())

    def close(self) -> None:
        """Reset everything and end the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._call(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()
        self._ports.release()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)

    async def _listen(self, own: int) -> None:
        self._ports.before_listen([own])
        target = self._routes[own]

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = _Connection(self, own, reader, writer)
            self.connections.add(connection)
            try:
                await connection.run(*target)
            except asyncio.CancelledError:
                pass  # it was reset: asyncio's server would print that
            finally:
                self.connections.discard(connection)

        self._servers.append(await asyncio.start_server(accepted, HOST, own, limit=_CHUNK))

    async def _cut(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        connections = list(self.connections)
        for connection in connections:
            connection.reset()
        await asyncio.gather(*(connection.ended.wait() for connection in connections))

    async def _set_faults(self, stalled: Direction, swallowing: Direction, route: int | None = None) -> None:
        self.stalled, self.stalled_route, self.swallowing = stalled, route, swallowing
        if stalled:
            self.flowing.clear()
        else:
            self.flowing.set()

    async def _restore(self) -> None:
        await self._set_faults(Direction.NONE, Direction.NONE)
        damaged = [connection for connection in self.connections if connection.damaged]
        for connection in damaged:
            connection.reset()
        await asyncio.gather(*(connection.ended.wait() for connection in damaged))
        if not self._servers:
            for own in self._routes:
                await self._listen(own)


class _Connection:
    """A client's connection and the link's own to the broker."""

    def __init__(
        self, link: Link, route: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.damaged = False
        self.ended = asyncio.Event()
        self._link, self._route = link, route
        self._client = (reader, writer)
        self._writers = [writer]
        self._task = asyncio.current_task()

    async def run(self, host: str, port: int) -> None:
        """Pass bytes both ways until one side ends."""
        try:
            reader, writer = await asyncio.open_connection(host, port, limit=_CHUNK)
            self._writers.append(writer)
            to_broker, to_client = (self._client[0], writer), (reader, self._client[1])
            # A task group ends all four as soon as one side is gone.
            async with asyncio.TaskGroup() as tasks:
                for way, (source, sink) in (Direction.TO_BROKER, to_broker), (Direction.TO_CLIENT, to_client):
                    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_IN_FLIGHT)
                    tasks.create_task(self._receive(source, queue))
                    tasks.create_task(self._send(way, queue, sink))
        except* OSError:
            pass  # the broker is down or a side is gone: the other side sees a reset
        finally:
            for each in self._writers:
                _reset(each)
            self.ended.set()

    def reset(self) -> None:
        """End both sides at once."""
        if self._task:
            self._task.cancel()

    async def _receive(self, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        clock = asyncio.get_running_loop().time
        while data := await reader.read(_CHUNK):
            await queue.put((clock(), data))
        await queue.put((clock(), b""))

    async def _send(
        self, direction: Direction, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        link = self._link
        clock = asyncio.get_running_loop().time
        while True:
            received, data = await queue.get()
            await asyncio.sleep(received + link.delay_ms / 1000 - clock())
            while direction in link.stalled and link.stalled_route in {None, self._route}:
                await link.flowing.wait()
            if direction in link.swallowing:
                self.damaged = True
                continue
            if not data:
                raise ConnectionResetError
            await self._write(writer, data)
            link.passed[direction] += len(data)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        while data:
            limit = self._link.bytes_per_second
            piece = data[: max(1, int(limit * _PACE_SECONDS))] if limit else data
            writer.write(piece)
            await writer.drain()
            data = data[len(piece) :]
            if limit:
                await asyncio.sleep(len(piece) / limit)


def _reset(writer: asyncio.StreamWriter) -> None:
    connected = writer.get_extra_info("socket")
    with suppress(OSError):
        # A reset, not an orderly end: this is what a cut line looks like.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
