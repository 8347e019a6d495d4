"""Answers ``/``, ``/status.json``, ``/group.json``, ``/metrics``, ``/healthz``; every request is read-only.

Serves any :class:`Board`: of a replicator, or of an observer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
import json
import socket
import sys
import threading
from typing import Any, Final, NamedTuple
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
    # The page is self-contained; a topic's name can never make it load or run something.
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_SILENT_SECONDS: Final = 10.0
_MOST_CLIENTS: Final = 64
"""Maximum number of connections; more are closed at once, so that slow clients take no memory."""
_TOTAL_SECONDS: Final = 30.0
"""Total time limit of a connection: a client that sends a byte a second is disconnected."""
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_FIND: Final = "find "
"""Prefix of a flow's name in a parameter of ``/status.json``: only groups with this value in their names."""


class Listen(NamedTuple):
    """Address to listen on; port 0: any free one."""

    address: str
    port: int


class PageServer:
    """A small web server in its own threads. Raises Failed if the port is not available."""

    def __init__(self, listen: Listen, board: Board) -> None:
        handler = type("Handler", (_Handler,), {"board": board})
        try:
            self._server = _Server(listen, handler)
        except OSError as error:
            raise Failed(
                "port_taken", where=f"{listen.address}:{listen.port}", evidence=str(error)
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def answering(listen: Listen | None, board: Board) -> Iterator[None]:
    """Serve while something runs, if there is a server."""
    if listen is None:
        yield
        return
    with closing(PageServer(listen, board)) as server:
        observe.event("page", url=f"http://{listen.address}:{server.port}/")
        yield


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of clients, each for a bounded time."""

    daemon_threads = True
    request_queue_size = _MOST_CLIENTS
    """Of the standard library's five, a sixth that comes at the same moment tries again after seconds."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._free = threading.BoundedSemaphore(_MOST_CLIENTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        timer = threading.Timer(_TOTAL_SECONDS, _hang_up, (request,))
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; anything else is a fault of drkit."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handle_error(request, client_address)


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    board: Board
    timeout = _SILENT_SECONDS

    def parse_request(self) -> bool:
        """Also refuse methods other than GET and HEAD, and foreign host names for this machine."""
        if not super().parse_request():
            return False
        if self.command not in {"GET", "HEAD"}:
            self._json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "nothing can be changed here"})
        elif not self._is_for_us(self.headers.get("Host")):
            self._json(HTTPStatus.MISDIRECTED_REQUEST, {"error": "this is not the name of this machine"})
        else:
            return True
        self.close_connection = True
        return False

    def _is_for_us(self, host: str | None) -> bool:
        """Return whether the host name is this one; else another site's page could read data on loopback."""
        address = str(self.connection.getsockname()[0])
        if host is None or not ip_address(address).is_loopback:
            return True
        return host.strip().lower().rsplit(":", 1)[0].rstrip(".") in _LOCAL or host.strip() == "::1"

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
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: requests are frequent."""

    def version_string(self) -> str:
        """The server's name, without the version of Python."""
        return "drkit"
