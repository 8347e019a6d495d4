"""Certificates for the brokers and clients of one local cluster, made with the keytool of their Java."""

from __future__ import annotations

from pathlib import Path
import subprocess
from typing import NamedTuple

from drkit.errors import Failed

_KEYTOOL_SECONDS = 60.0
_PASSWORD = "local-cluster"  # noqa: S105  protects a key that never leaves a temporary folder
_ALIAS = "broker"


class Certificate(NamedTuple):
    """A key store for the brokers, and the certificate as PEM that clients trust."""

    keystore: Path
    authority: Path
    password: str = _PASSWORD


def make_certificate(java: Path, folder: Path) -> Certificate:
    """A self-signed certificate for 127.0.0.1 and localhost, valid for a month.

    :raises Failed: keytool is missing or refuses
    """
    made = Certificate(folder / "broker.p12", folder / "authority.pem")
    store = ("-alias", _ALIAS, "-keystore", str(made.keystore), "-storepass", _PASSWORD)
    key = ("-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1")
    subject = ("-dname", "CN=localhost", "-validity", "30", "-ext", "san=ip:127.0.0.1,dns:localhost")
    # It lets clients take it as its own authority: one certificate instead of a chain.
    authority = ("-ext", "bc:c=ca:true")
    _keytool(java, "-genkeypair", *key, *subject, *authority, *store)
    _keytool(java, "-exportcert", "-rfc", "-file", str(made.authority), *store)
    return made


def make_client_certificate(
    java: Path, certificate: Certificate, name: str, kind: str, valid_days: tuple[int, int]
) -> Path:
    """A key store with a certificate for ``CN=name`` that the cluster's authority signed.

    :param kind: JKS or PKCS12
    :param valid_days: its first and its last day, counted from today
    :raises Failed: keytool is missing or refuses
    """
    first, last = valid_days
    alias = f"{name}-{first}-{last}-{kind}".lower()
    made = certificate.keystore.with_name(f"{alias}.{kind.lower()}")
    if made.exists():
        return made
    store = ("-keystore", str(certificate.keystore), "-storepass", _PASSWORD)
    key = ("-alias", alias, "-keyalg", "EC", "-groupname", "secp256r1", "-dname", f"CN={name}")
    days = ("-startdate", f"{first:+d}d", "-validity", str(last - first))
    signed = (*key, *days, "-signer", _ALIAS)
    _keytool(java, "-genkeypair", *signed, *store)
    source = ("-srckeystore", str(certificate.keystore), "-srcstorepass", _PASSWORD, "-srcalias", alias)
    target = ("-destkeystore", str(made), "-deststorepass", _PASSWORD, "-deststoretype", kind)
    _keytool(java, "-importkeystore", *source, *target)
    return made


def _keytool(java: Path, *arguments: str) -> None:
    keytool = java.with_name("keytool")
    if not keytool.exists():
        keytool = java.resolve().with_name("keytool")
    try:
        done = subprocess.run(
            [str(keytool), *arguments], capture_output=True, text=True, timeout=_KEYTOOL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed("keytool_missing", where=str(keytool), evidence=str(error)) from error
    if done.returncode != 0:
        raise Failed("certificate_not_made", where=str(keytool), evidence=done.stdout + done.stderr)
