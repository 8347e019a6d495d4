"""Credentials that are sent unencrypted, and security settings without effect. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from drkit.config.tables.cluster import ClusterSettings

_PROTOCOL: Final = "security.protocol"
_TOKENS: Final = "sasl.oauthbearer.token.endpoint.url"
_OF_LOGINS: Final = (
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
)
_OF_TLS: Final = ("ssl.truststore.", "ssl.keystore.", "ssl.ca.", "ssl.key.", "ssl.certificate.")
_SEEN: Final = {
    "PLAIN": "the password travels in clear text",
    "OAUTHBEARER": "the token travels in clear text",
}
_TAKEN_OVER: Final = "without TLS others on the way can read records and continue the session"


def in_clear(clusters: Mapping[str, ClusterSettings]) -> Iterator[tuple[str, str, str]]:
    """What client properties leave unprotected: the property's path, what happens, what to set.

    :param clusters: by their aliases
    """
    for alias, cluster in clusters.items():
        for name, what, to_do in _of_one(cluster.client):
            yield f'clusters.{alias}.client."{name}"', what, to_do


def _of_one(client: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    protocol = client.get(_PROTOCOL, "PLAINTEXT").upper()
    says = f"{_PROTOCOL} is {protocol}" + ("" if _PROTOCOL in client else ", Kafka's default")
    logins = next((name for name in _OF_LOGINS if name in client), None)
    if protocol in {"PLAINTEXT", "SSL"} and logins:
        yield logins, f"not used: {says}, so drkit does not log in", f'set "{_PROTOCOL}" to SASL_SSL'
    stores = next((name for name in sorted(client) if name.startswith(_OF_TLS)), None)
    if protocol in {"PLAINTEXT", "SASL_PLAINTEXT"} and stores:
        wanted = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
        yield stores, f"not used: {says}, so nothing is encrypted", f'set "{_PROTOCOL}" to {wanted}'
    if protocol == "SASL_PLAINTEXT":
        mechanism = client.get("sasl.mechanism", client.get("sasl.mechanisms", "GSSAPI")).upper()
        yield _PROTOCOL, _SEEN.get(mechanism, _TAKEN_OVER), f'set "{_PROTOCOL}" to SASL_SSL'
    if protocol.startswith("SASL") and _is_plain_http(client.get(_TOKENS, "")):
        yield _TOKENS, "the client's secret travels in clear text", "use an https address"


def _is_plain_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme == "http"
    except ValueError:
        return False
