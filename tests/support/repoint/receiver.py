"""Receivers of endpoints as users write them: an HTTP service and a program, each with a memory."""

from __future__ import annotations

import hmac
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
from pathlib import Path
import ssl
import sys
import threading
from typing import Any

from drkit.repoint.webhook import signature

PROGRAM = """
import json, os, pathlib, sys
state, told = pathlib.Path(sys.argv[1]), json.load(sys.stdin)
assert str(told["term"]) == os.environ["DRKIT_TERM"]
if state.with_suffix(".broken").exists():
    state.with_suffix(".broken").unlink()
    sys.exit("no route to the proxy, password=hunter2")
known = json.loads(state.read_text()) if state.exists() else None
if known and known["term"] > told["term"]:
    print("term", known["term"], "is known")
    sys.exit(3)
if known != told:
    state.write_text(json.dumps(told))
    with state.with_suffix(".changes").open("a") as log:
        print(os.environ["DRKIT_CLUSTER"], os.environ["DRKIT_BOOTSTRAP_SERVERS"], file=log)
"""


def program(state: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", PROGRAM, str(state))


class HttpReceiver:
    """Takes signed endpoints and keeps the newest; answers as `Webhook` documents it."""

    def __init__(self, secret: str, chain: Path | None = None) -> None:
        """With `chain`, a key with its certificate, it speaks TLS."""
        self.known: dict[str, Any] | None = None
        self.changes = 0
        self.keys: list[str] = []
        self.headers: dict[str, str] = {}
        self.answers: list[tuple[int, dict[str, str]]] = []
        """What the next requests are answered, whatever they say."""
        self._secret = secret
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.headers = dict(self.headers)
                status, headers = owner.answers.pop(0) if owner.answers else (owner.take(body), {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if chain is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(chain)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if chain is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/hooks/t0p-secret?token=abc"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, body: bytes) -> int:
        stamp = self.headers["Drkit-Timestamp"]
        if not hmac.compare_digest(self.headers["Drkit-Signature"], signature(self._secret, stamp, body)):
            return 401
        self.keys.append(self.headers["Idempotency-Key"])
        told = json.loads(body)
        if self.known is not None and self.known["term"] > told["term"]:
            return 409
        if self.known == told:
            return 208
        self.known, self.changes = told, self.changes + 1
        return 204

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
