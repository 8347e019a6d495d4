"""A Kubernetes API server as far as ConfigMaps go: TLS, tokens, RBAC, versions, conflicts, merge patches.

It answers as the real one does (API conventions of Kubernetes, RFC 7386), also where it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
from pathlib import Path
import re
import ssl
import threading
from typing import Any

from tests.support.repoint.certificates import certificate

_PATH = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/configmaps(?:/(?P<name>[^/]+))?")
_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch"}
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
            415: "UnsupportedMediaType", 422: "Invalid", 503: "ServiceUnavailable"}  # fmt: skip


class ApiServer:
    """One namespace ``shop``; a token may do what ``rights`` says."""

    def __init__(self, folder: Path) -> None:
        self.authority, chain = certificate(folder)
        self.rights: dict[str, set[str]] = {"good": {"get", "create", "patch"}}
        self.maps: dict[str, dict[str, Any]] = {}
        self.refuse = 0
        """How many of the next requests are answered with 503."""
        self.before_write: Callable[[], None] = lambda: None
        self.requests: list[str] = []
        self._version = 100
        self._lock = threading.RLock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, body = owner.answer(
                    self.command, self.path, dict(self.headers), self.rfile.read(length)
                )
                sent = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PATCH = handle_any  # noqa: N815  http.server's names

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        with self._lock:
            if self.refuse:
                self.refuse -= 1
                return _status(503, "apiserver not ready")
            token = headers.get("Authorization", "").removeprefix("Bearer ")
            if token not in self.rights:
                return _status(401, "Unauthorized")
            match = _PATH.fullmatch(path)
            if match is None:
                return _status(404, "the server could not find the requested resource")
            verb = _VERBS[method]
            if verb not in self.rights[token]:
                who = f'User "system:serviceaccount:shop:drkit" cannot {verb} resource "configmaps"'
                return _status(403, f'configmaps is forbidden: {who} in API group "" in the namespace "shop"')
            if match["namespace"] != "shop":
                return _status(404, f'namespaces "{match["namespace"]}" not found')
            if method != "GET":
                self.before_write()
            sent = json.loads(body) if body else {}
            work = {"get": self._get, "create": self._create, "patch": self._patch}[verb]
            return work(match["name"] or "", sent, headers.get("Content-Type", ""))

    def put(self, name: str, data: dict[str, str], **more: Any) -> None:
        """Write as another client does."""
        with self._lock:
            self._version += 1
            before = self.maps.get(
                name, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            )
            metadata = {**before["metadata"], "resourceVersion": str(self._version)}
            self.maps[name] = {**before, **more, "metadata": metadata, "data": data}

    def _get(self, name: str, _sent: dict[str, Any], _kind: str) -> tuple[int, Any]:
        found = self.maps.get(name)
        return (200, found) if found else _status(404, f'configmaps "{name}" not found')

    def _create(self, _name: str, sent: dict[str, Any], kind: str) -> tuple[int, Any]:
        if kind != "application/json":
            return _status(415, f"the body of the request was in an unknown format: {kind}")
        name = sent["metadata"]["name"]
        if name in self.maps:
            return _status(409, f'configmaps "{name}" already exists', "AlreadyExists")
        self.put(name, sent["data"])
        self.maps[name]["metadata"] = sent["metadata"] | self.maps[name]["metadata"]
        return 201, self.maps[name]

    def _patch(self, name: str, sent: dict[str, Any], kind: str) -> tuple[int, Any]:
        if kind != "application/merge-patch+json":
            return _status(415, f"the body of the request was in an unknown format: {kind}")
        found = self.maps.get(name)
        if found is None:
            return _status(404, f'configmaps "{name}" not found')
        version = sent.get("metadata", {}).get("resourceVersion", found["metadata"]["resourceVersion"])
        if version != found["metadata"]["resourceVersion"]:
            text = (
                "the object has been modified; please apply your changes to the latest version and try again"
            )
            return _status(409, f'Operation cannot be fulfilled on configmaps "{name}": {text}')
        if found.get("immutable") and sent.get("data"):
            return _status(
                422, f'ConfigMap "{name}" is invalid: data: field is immutable when `immutable` is set'
            )
        merged = _merge(found, sent)
        self._version += 1
        merged["metadata"]["resourceVersion"] = str(self._version)
        self.maps[name] = merged
        return 200, merged

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merge(found.get(key), value)
    return found


def _status(code: int, message: str, reason: str = "") -> tuple[int, Any]:
    found = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return code, {**found, "reason": reason or _REASONS[code]}
