"""A token endpoint (OAuth 2 client credentials) that gives unsigned tokens, on the loopback interface."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import threading
import time
from types import TracebackType
from typing import Any, Self


class TokenServer:
    """Knows some clients by id and secret; a context manager."""

    def __init__(self, clients: Mapping[str, str], seconds: int = 300) -> None:
        self.given = 0
        outer = self
        accepted = {
            "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode(): name
            for name, secret in clients.items()
        }

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                name = accepted.get(self.headers["Authorization"])
                outer.given += name is not None
                self.send_response(200 if name else 401)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                answer = (
                    {"access_token": token(name, seconds), "expires_in": seconds} if name else {"error": "no"}
                )
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def token(subject: str, seconds: int) -> str:
    """An unsigned JSON web token (RFC 7519, section 6)."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now, "exp": now + seconds}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(body: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(body).encode()).rstrip(b"=").decode()
