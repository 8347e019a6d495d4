"""Credentials that travel in clear text are named at the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.config.loader import read

LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.client.id": "i",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": "http://h/token",
}


def notes(tmp_path: Path, client: dict[str, str]) -> list[tuple[str, str, str]]:
    lines = "\n".join(f'"{name}" = {json.dumps(value)}' for name, value in client.items())
    file = tmp_path / "drkit.toml"
    file.write_text(
        f'[clusters.a]\nbootstrap_servers = "h:1"\n[clusters.a.client]\n{lines}\n'
        '[clusters.b]\nbootstrap_servers = "h:2"\n[[flows]]\nsource = "a"\ntarget = "b"\n'
    )
    return [(n.at, n.what, n.hint) for n in read(file, {}).notes]


@pytest.mark.parametrize(
    ("client", "at", "what", "to_do"),
    [
        (LOGIN, "sasl.mechanism", "does not log in", "SASL_SSL"),
        (LOGIN | {"security.protocol": "SSL"}, "sasl.mechanism", "does not log in", "SASL_SSL"),
        ({"ssl.ca.location": "/ca.pem"}, "ssl.ca.location", "nothing is encrypted", "to SSL"),
        (LOGIN | {"security.protocol": "SASL_PLAINTEXT"}, "security.protocol", "password", "SASL_SSL"),
        (
            LOGIN | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"},
            "security.protocol", "without TLS", "SASL_SSL",
        ),
        (TOKENS | {"security.protocol": "SASL_SSL"}, "token.endpoint.url", "secret travels", "https"),
        (TOKENS | {"security.protocol": "sasl_plaintext"}, "security.protocol", "token travels", "SASL_SSL"),
    ],
)  # fmt: skip
def test_what_is_not_protected_is_named(
    tmp_path: Path, client: dict[str, str], at: str, what: str, to_do: str
):
    found = [note for note in notes(tmp_path, client) if at in note[0]]
    assert found
    assert what in found[0][1]
    assert to_do in found[0][2]
    assert found[0][0].startswith("clusters.a.client.")


@pytest.mark.parametrize(
    "client",
    [
        {},
        LOGIN | {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"},
        {"security.protocol": "SSL", "ssl.keystore.location": "/k.pem"},
        TOKENS | {"security.protocol": "SASL_SSL", "sasl.oauthbearer.token.endpoint.url": "https://h/token"},
    ],
)
def test_what_is_protected_is_not(tmp_path: Path, client: dict[str, str]):
    assert not notes(tmp_path, client)
