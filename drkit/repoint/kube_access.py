"""Access to a Kubernetes API server: by a pod's service account, or a kubeconfig."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
import json
import os
from pathlib import Path
from typing import Any, Final

from drkit.errors import ConfigError
from drkit.kafka.security.settings import Tls

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
        raise ConfigError(
            "no_kubernetes",
            where=_WHERE,
            evidence=f"no kubeconfig is named, drkit runs in no pod, and {file} does not exist",
        )
    return from_kubeconfig(file)


def from_kubeconfig(file: Path) -> KubeAccess:
    """The current context of a kubeconfig, in YAML or JSON.

    :raises ConfigError: it cannot be read, or it logs in by a plugin
    """
    found = _document(file)
    try:
        context = _named(found["contexts"], found["current-context"])["context"]
        cluster = _named(found["clusters"], context["cluster"])["cluster"]
        user = _named(found["users"], context["user"])["user"] if context.get("user") else {}
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
