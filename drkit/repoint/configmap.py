"""A Kubernetes ConfigMap holds the endpoint; pods mount it as a file or watch it."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import DrkitError, Failed, NotAuthenticated, NotAuthorized
from drkit.kafka.clients import tls_context
from drkit.repoint.contract import RepointEffect, TryAgain, judge
from drkit.repoint.http import HttpAnswer, HttpCaller
from drkit.repoint.kube_access import KubeAccess

DEFAULT_KEY: Final = "endpoint.json"
_TERM: Final = "drkit/term"
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
_Found = dict[str, Any]


class ConfigMap:
    """Keeps one key of a ConfigMap; its other keys, labels and owners stay.

    A change names the version that was read, so that the API server refuses it (409) if the object changed
    meanwhile: then it is read and judged again.
    """

    def __init__(
        self, access: KubeAccess, name: str, *, namespace: str | None, key: str | None, timeout_seconds: float
    ) -> None:
        self._access, self._map = access, name
        self._namespace = namespace or access.namespace
        self._key = key or DEFAULT_KEY
        self._caller = HttpCaller(tls_context(access.tls, access.server), timeout_seconds)

    @property
    def name(self) -> str:
        """See :class:`Adapter`."""
        return f"configmap {self._namespace}/{self._map}"

    def current(self) -> Endpoint | None:
        """See :class:`Adapter`."""
        return self._endpoint(self._read())

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """See :class:`Adapter`."""
        found = self._read()
        effect = judge(self._endpoint(found), endpoint, self.name)
        if effect is RepointEffect.CHANGED:
            self._write(found, endpoint)
        return effect

    def _read(self) -> _Found | None:
        answer = self._call("GET", self._path(self._map))
        if answer.status == _NOT_FOUND:
            return None
        if not answer.is_done:
            raise self._refused(answer, "read", "get")
        try:
            found = answer.json()
            if isinstance(found, dict) and found.get("kind") == "ConfigMap":
                return found
        except ValueError:
            pass
        raise Failed("not_kubernetes", where=self._access.server, evidence=answer.text)  # fmt: skip

    def _write(self, found: _Found | None, endpoint: Endpoint) -> None:
        metadata: dict[str, Any] = {"annotations": {_TERM: str(endpoint.term)}}
        content = {"data": {self._key: endpoint.to_json()}, "metadata": metadata}
        if found is None:
            metadata |= {"name": self._map, "namespace": self._namespace}
            whole = {"apiVersion": "v1", "kind": "ConfigMap", **content}
            answer = self._call("POST", self._path(), whole, _JSON)
            verb = "create"
        else:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
            answer = self._call("PATCH", self._path(self._map), content, _MERGE)
            verb = "patch"
        if answer.status == _CONFLICT:
            raise TryAgain("configmap_conflict", where=self.name, evidence=answer.text)
        if not answer.is_done:
            raise self._refused(answer, "written", verb)

    def _endpoint(self, found: _Found | None) -> Endpoint | None:
        text = (found or {}).get("data", {}).get(self._key)
        if text is None:
            return None
        try:
            return parse_endpoint(text)
        except ValueError as error:
            raise Failed(
                "configmap_foreign", where=f"{self.name}, key {self._key}", evidence=str(error)
            ) from error

    def _path(self, name: str | None = None) -> str:
        folder = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/configmaps"
        return folder if name is None else f"{folder}/{quote(name, safe='')}"

    def _call(self, method: str, path: str, body: object = None, kind: str = "") -> HttpAnswer:
        headers = {"Accept": _JSON, "User-Agent": "drkit", **self._access.headers()}
        if kind:
            headers["Content-Type"] = kind
        sent = None if body is None else json.dumps(body).encode()
        return self._caller.call(method, self._access.server + path, headers, sent)

    def _refused(self, answer: HttpAnswer, done: str, verb: str) -> DrkitError:
        kinds: dict[int, type[DrkitError]] = {_UNAUTHORIZED: NotAuthenticated, _FORBIDDEN: NotAuthorized}
        hints = {
            _UNAUTHORIZED: "the token or certificate is not taken: renew it",
            _FORBIDDEN: f"grant drkit's account by RBAC: verb {verb} on configmaps in {self._namespace}",
            _NOT_FOUND: f"create the namespace {self._namespace}, or name another one",
        }
        return kinds.get(answer.status, Failed)(
            "configmap_refused",
            where=f"{self._access.server} {self.name}",
            evidence=_status(answer),
            hint=hints.get(
                answer.status, f"see: kubectl -n {self._namespace} get configmap {self._map} -o yaml"
            ),
            done=done,
        )


def _status(answer: HttpAnswer) -> str:
    """The message of a Kubernetes Status object, which says it best."""
    try:
        found = answer.json()
    except ValueError:
        return answer.text
    message = found.get("message") if isinstance(found, dict) else None
    return f"HTTP {answer.status}: {message}" if message else answer.text
