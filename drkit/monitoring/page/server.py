"""Answers ``/``, ``/status.json``, ``/group.json``, ``/metrics``, ``/healthz``; nothing changes anything.

Whoever has a :class:`Board` can be served: a replicator, or somebody who only watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
import json
import threading
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from prometheus_client import CONTENT_TYPE_LATEST

from drkit import observe
from drkit.errors import Failed
from drkit.monitoring.board import Board

_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json; charset=utf-8"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # The page brings everything with it; a topic's name can never make it load or run something.
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
}
_SILENT_SECONDS: Final = 10.0
_FIND: Final = "find "
"""Before a flow's name, as a parameter of ``/status.json``: only groups with this in their names."""


class Listen(NamedTuple):
    """Where to answer; port 0: any free one."""

    address: str
    port: int


class PageServer:
    """A small web server in threads of its own.

    :raises Failed: the port cannot be had
    """

    def __init__(self, listen: Listen, board: Board) -> None:
        handler = type("Handler", (_Handler,), {"board": board})
        try:
            self._server = ThreadingHTTPServer(listen, handler)
        except OSError as error:
            raise Failed(
                "the port for metrics cannot be opened",
                where=f"{listen.address}:{listen.port}",
                evidence=str(error),
                hint="choose another --metrics-port",
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def answering(listen: Listen | None, board: Board) -> Iterator[None]:
    """Answer while something runs; None answers nowhere."""
    if listen is None:
        yield
        return
    server = PageServer(listen, board)
    observe.event("page", url=f"http://{listen.address}:{server.port}/")
    try:
        yield
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    board: Board
    timeout = _SILENT_SECONDS

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        asked = dict(parse_qsl(query))
        if path == "/":
            page = files("drkit.monitoring.page").joinpath("index.html").read_bytes()
            self._answer(HTTPStatus.OK, _HTML, page)
        elif path == "/status.json":
            find = {k.removeprefix(_FIND): v for k, v in asked.items() if k.startswith(_FIND)}
            self._json(HTTPStatus.OK, self.board.status(find))
        elif path == "/group.json":
            told = self.board.group(asked.get("flow", ""), asked.get("group", ""))
            nothing = {"error": "nothing is known of this group now"}
            self._json(HTTPStatus.NOT_FOUND if told is None else HTTPStatus.OK, told or nothing)
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, self.board.metrics())
        elif path == "/healthz":
            healthy, told = self.board.health()
            self._json(HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE, told)
        else:
            paths = ["/", "/status.json", "/group.json", "/metrics", "/healthz"]
            self._json(HTTPStatus.NOT_FOUND, {"error": "there is no such page", "pages": paths})

    do_HEAD = do_GET  # noqa: N815  http.server has this name

    def _json(self, status: HTTPStatus, body: object) -> None:
        self._answer(status, _JSON, json.dumps(body, default=str).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a scrape every few seconds is no news."""

    def version_string(self) -> str:
        """Tell nobody which Python this is."""
        return "drkit"
