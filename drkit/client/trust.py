"""What an endpoint file may set in a client: where the cluster is, never whom to trust or what to run.

Any process with write access to the file decides where an application sends its records and credentials.
Only the settings needed to reach a cluster are accepted from it.
"""

from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Final

from drkit.endpoint import CONNECTION, Endpoint

_PROTOCOL: Final = "security.protocol"
_CIPHERS: Final = "ssl.cipher.suites"
_SIGNATURES: Final = "ssl.sigalgs.list"
_PEM: Final = "ssl.ca.pem"
_ONLY: Final = {
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}
"""What checks the broker may be switched on, not off."""
_CIPHERED: Final = frozenset({"SSL", "SASL_SSL"})
_MECHANISM: Final = frozenset({"sasl.mechanism", "sasl.mechanisms"})
_AUTHORITIES: Final = frozenset({"ssl.ca.location", _PEM, "ssl.ca.certificate.stores"})
_ONE_OF: Final = (_MECHANISM, _AUTHORITIES)
"""Names of one thing: librdkafka takes the last of two mechanisms, and trusts two authorities together."""
_LARGEST_TERM: Final = 2**53
"""Numbers in other languages are exact up to here."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_SERVERS: Final = re.compile(r"[\w.:\[\]%/, -]+", re.ASCII)
"""Host names and ports: librdkafka puts them into the command that renews a Kerberos ticket."""
_SERVICE: Final = re.compile(r"[\w.-]+", re.ASCII)


def why_not(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None = None) -> str:
    """Why a client does not follow an endpoint, as text; empty if it does.

    :param own: the application's own properties for that cluster, which win over the file's
    :param before: the endpoint that it follows now
    """
    return (
        _malformed(endpoint)
        or _misnamed(endpoint)
        or _forbidden(endpoint)
        or _weaker(endpoint, own, before)
        or _readable_password(endpoint, own, before)
    )


def connection(endpoint: Endpoint, own: Mapping[str, object]) -> dict[str, str]:
    """The endpoint's properties without those that the application sets, also under another name."""
    names = {name for same in _ONE_OF if same & own.keys() for name in same} | own.keys()
    return {name: value for name, value in endpoint.client.items() if name not in names}


def _malformed(endpoint: Endpoint) -> str:
    """Which value of the endpoint is invalid, as text; empty if none is."""
    if not endpoint.cluster_id:
        return "it names no cluster_id: a wrong cluster would not be noticed"
    if not endpoint.cluster:
        return "it names no cluster"
    if not 0 <= endpoint.term <= _LARGEST_TERM:
        return "its term is no term: it is not between 0 and 2^53"
    if not _SERVERS.fullmatch(endpoint.bootstrap_servers):
        return f"its bootstrap_servers are no host names with ports: {endpoint.bootstrap_servers!r}"
    return ""


def _misnamed(endpoint: Endpoint) -> str:
    """Which names are invalid, as text; empty if all are valid."""
    topics = endpoint.topics
    for name in (*topics, *topics.values()):
        if not _TOPIC.fullmatch(name):
            return f"it names the topic {name[:300]!r}, which no topic can be called"
    if len(set(topics.values())) < len(topics):
        return "it gives two topics the same name"
    texts = [endpoint.cluster, endpoint.cluster_id, *endpoint.client]
    texts += [value for name, value in endpoint.client.items() if name != _PEM]
    texts += endpoint.client.get(_PEM, "").splitlines()
    unprintable = next((text for text in texts if not text.isprintable()), None)
    return "" if unprintable is None else f"it holds a text that cannot be printed: {unprintable[:300]!r}"


def _forbidden(endpoint: Endpoint) -> str:
    """Which property only an application may set, as text; empty if the endpoint sets no such property."""
    said = endpoint.client
    foreign = sorted(said.keys() - CONNECTION)
    if foreign:
        return f"an endpoint may not set {', '.join(foreign)}: an application sets it by itself"
    for name, allowed in _ONLY.items():
        if said.get(name, allowed).lower() != allowed:
            return f"it sets {name} = {said[name]}: an endpoint may not switch that check off"
    for name in (_CIPHERS, _SIGNATURES):
        if "SECLEVEL" in said.get(name, "").upper():
            return f"it sets {name} = {said[name]}: an endpoint may not lower the level of security"
    if len({said[name] for name in _MECHANISM & said.keys()}) > 1:
        return "it sets sasl.mechanism and sasl.mechanisms, which are one, to different values"
    service = said.get("sasl.kerberos.service.name", "kafka")
    if not _SERVICE.fullmatch(service):
        return f"it sets sasl.kerberos.service.name = {service}, which no service is called"
    return ""


def _weaker(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None) -> str:
    """Whether TLS would be given up that the application itself does not give up."""
    was, now = _protocol(before), _protocol(endpoint)
    if _PROTOCOL in own or now in _CIPHERED:
        return ""
    if was in _CIPHERED:
        return f"it leads from {was} to {now}: records and passwords would travel in clear"
    if named := sorted(name for name in own if name.startswith("ssl.")):
        return (
            f"it leads to {now}, and the application sets {named[0]}: records and passwords would travel in"
            " clear; if that is meant, set security.protocol in the application"
        )
    return ""


def _readable_password(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None) -> str:
    """Whether a password would be sent in clear that is only proven until now."""
    was, now = (str(own.get(_PROTOCOL, _protocol(e))).upper() for e in (before, endpoint))
    if before is None or _MECHANISM & own.keys() or not was == now == "SASL_PLAINTEXT":
        return ""
    if _mechanism(before) != "PLAIN" == _mechanism(endpoint):
        return f"it leads from {_mechanism(before)} to PLAIN without TLS: the password would travel in clear"
    return ""


def _protocol(endpoint: Endpoint | None) -> str:
    return "PLAINTEXT" if endpoint is None else endpoint.client.get(_PROTOCOL, "PLAINTEXT").upper()


def _mechanism(endpoint: Endpoint) -> str:
    named = (endpoint.client[name] for name in sorted(_MECHANISM & endpoint.client.keys()))
    return next(named, "GSSAPI").upper()
