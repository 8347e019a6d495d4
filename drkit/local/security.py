"""A certificate for the brokers of one local cluster, made with the keytool of the Java that runs them."""

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
    store = (
        "-alias",
        _ALIAS,
        "-keystore",
        str(made.keystore),
        "-storepass",
        _PASSWORD,
        "-storetype",
        "PKCS12",
    )
    key = (
        "-genkeypair",
        "-keyalg",
        "EC",
        "-groupname",
        "secp256r1",
        "-validity",
        "30",
        "-dname",
        "CN=localhost",
    )
    # "ca:true" lets clients take it as its own authority: one certificate instead of a chain.
    extensions = ("-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc:c=ca:true")
    _keytool(java, *key, *extensions, *store)
    _keytool(java, "-exportcert", "-rfc", "-file", str(made.authority), *store)
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
        raise Failed("keytool does not run", where=str(keytool), evidence=str(error)) from error
    if done.returncode != 0:
        raise Failed("no certificate could be made", where=str(keytool), evidence=done.stdout + done.stderr)
