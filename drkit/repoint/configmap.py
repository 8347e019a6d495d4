"""A Kubernetes ConfigMap holds the endpoint; pods mount it as a file or watch it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
import json
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError, DrkitError, Failed, NotAuthenticated, NotAuthorized
from drkit.kafka.clients import tls_context
from drkit.kafka.security.settings import Tls
from drkit.repoint.contract import RepointEffect, TryAgain, judge
from drkit.repoint.http import HttpAnswer, HttpCaller

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_WHERE: Final = "[failover] repoint, kind configmap"
_DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """An API server, and the credentials to call it."""

    server: str
    namespace: str
    tls: Tls
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """Read at each use: tokens of pods live for an hour and are renewed in the same file."""

    def headers(self) -> dict[str, str]:
        """Headers with the credentials. Raises ConfigError when the token cannot be read."""
        token = self.token if self.token_file is None else _text(self.token_file).strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def find_access(
    kubeconfig: str | None, env: Mapping[str, str] = os.environ, account: Path = ACCOUNT
) -> KubeAccess:
    """The named kubeconfig; else the pod's service account; else ``KUBECONFIG``, ``~/.kube/config``.

    :raises ConfigError: no kubeconfig is found, or it needs something that drkit does not support
    """
    if kubeconfig:
        return from_kubeconfig(Path(kubeconfig))
    if (host := env.get("KUBERNETES_SERVICE_HOST")) and (account / "token").is_file():
        bracketed = f"[{host}]" if ":" in host else host
        return KubeAccess(
            server=f"https://{bracketed}:{env.get('KUBERNETES_SERVICE_PORT', '443')}",
            namespace=_text(account / "namespace").strip() or _DEFAULT_NAMESPACE,
            tls=Tls(ca_file=str(account / "ca.crt")),
            token_file=account / "token",
        )
    named = env.get("KUBECONFIG", "").split(os.pathsep)[0]
    file = Path(named) if named else Path(env.get("HOME", "/"), ".kube", "config")
    if not file.is_file():
        evidence = f"no kubeconfig is named, drkit runs in no pod, and {file} does not exist"
        raise ConfigError("no_kubernetes", where=_WHERE, evidence=evidence)
    return from_kubeconfig(file)


def from_kubeconfig(file: Path) -> KubeAccess:
    """The current context of a kubeconfig, in YAML or JSON.

    :raises ConfigError: it cannot be read, or it logs in by a plugin
    """
    document = _document(file)
    try:
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"] if context.get("user") else {}
        server = str(cluster["server"]).rstrip("/")
    except (KeyError, TypeError) as error:
        raise _unusable(file, f"{error.args[0]} is missing", "see: kubectl config view --minify") from error
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            hint = "make a service account for drkit, and a kubeconfig with its token"
            raise _unusable(file, f"its user logs in by a plugin ({plugin})", hint)
    certificate, key = _pem(file, user, "client-certificate"), _pem(file, user, "client-key")
    authority = _pem(file, cluster, "certificate-authority")
    token_file = user.get("tokenFile")
    return KubeAccess(
        server=server,
        namespace=context.get("namespace") or _DEFAULT_NAMESPACE,
        tls=Tls(
            ca_pem=authority,
            certificate_pem=certificate,
            key_pem=key,
            verify=not cluster.get("insecure-skip-tls-verify", False),
        ),
        token=user.get("token"),
        token_file=file.parent / token_file if token_file else None,
    )


def _document(file: Path) -> Any:
    text = _text(file)
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        # Optional: clusters that are not on Kubernetes need no YAML.
        import yaml  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'pyyaml>=6,<7', or: kubectl config view --minify --flatten -o json > FILE"
        raise _unusable(file, "it is YAML, and PyYAML is not installed", hint) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _unusable(file, str(error), "see: kubectl config view --minify") from error


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry.get("name") == name:
            return entry
    raise KeyError(f"'{name}'")


def _pem(file: Path, table: Mapping[str, Any], key: str) -> str | None:
    """A certificate or key as text, from the kubeconfig itself or a file next to it."""
    if data := table.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise _unusable(file, f"{key}-data is not base64", "see: kubectl config view --minify") from error
    return _text(file.parent / table[key]) if table.get(key) else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, str(error), "let drkit's user read it") from error


def _unusable(file: Path, evidence: str, hint: str) -> ConfigError:
    return ConfigError("kubeconfig_unusable", where=str(file), evidence=evidence, hint=hint)


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
