"""A name that leads to one cluster and then to another: new connections go there, as after a DNS change."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import threading


class Relay:
    """Listens on one port; what is connected stays connected."""

    def __init__(self, server: str) -> None:
        self._to = server
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    @property
    def address(self) -> str:
        """For ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def lead_to(self, server: str) -> None:
        """Where new connections go from now on."""
        self._to = server

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._to.split(",")[0].rpartition(":")
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, back), _pass(there, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
