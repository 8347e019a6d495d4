"""The document for clients: the cluster to use now. `drkit.repoint` writes it, `drkit.client` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import json
from reprlib import Repr
from typing import Any, Final

VERSION: Final = 1
"""Version of the document. Readers of a version skip unknown keys."""
_MARK: Final = "drkit_endpoint"
_SHORT: Final = Repr()
"""Values in errors: a damaged file may hold large ones."""
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
LARGEST_TERM: Final = 2**53
"""Clients follow no larger one: numbers in other languages are exact up to here."""
CONNECTION: Final = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.kerberos.service.name",
    "ssl.ca.location", "ssl.ca.pem", "ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
    "client.dns.lookup", "broker.address.family", "client.rack", "allow.auto.create.topics",
    "socket.connection.setup.timeout.ms", "socket.timeout.ms", "socket.keepalive.enable",
    "socket.send.buffer.bytes", "socket.receive.buffer.bytes", "socket.nagle.disable",
    "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "request.timeout.ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms",
})  # fmt: skip
"""Properties of the connection. None of reading or writing records, and none that loads a file of code."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A cluster for clients.

    :param term: the generation of the role: of two endpoints the one with the larger term counts
    :param cluster: its alias
    :param cluster_id: the id that its brokers must show: a host name may now lead to another cluster
    :param client: Kafka's client properties that are needed to reach it (of `CONNECTION`), no secrets
    :param topics: old names → names on this cluster, of renamed topics
    """

    term: int
    cluster: str
    cluster_id: str
    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    def topic(self, name: str) -> str:
        """A topic's name on this cluster."""
        return self.topics.get(name, name)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, in the order in which it is written."""
        return {
            _MARK: VERSION,
            "term": self.term,
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "bootstrap_servers": self.bootstrap_servers,
            "client": dict(self.client),
            "topics": dict(self.topics),
        }

    def to_json(self) -> str:
        """The document."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"


def parse_endpoint(text: str) -> Endpoint:
    """Read the document. Raises ValueError with the reason if it is invalid."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is not an endpoint: it is nested without end") from error
    if not isinstance(found, dict) or _MARK not in found:
        raise ValueError(f"it is not an endpoint: there is no '{_MARK}'")
    if found[_MARK] != VERSION:
        raise ValueError(f"its version is {_SHORT.repr(found[_MARK])}, this drkit reads {VERSION}")
    try:
        return Endpoint(
            term=_of(int, found, "term"),
            cluster=_of(str, found, "cluster"),
            cluster_id=_of(str, found, "cluster_id"),
            bootstrap_servers=_of(str, found, "bootstrap_servers"),
            client=_texts(found.get("client", {}), "client"),
            topics=_texts(found.get("topics", {}), "topics"),
        )
    except KeyError as error:
        raise ValueError(f"it has no '{error.args[0]}'") from error


def _of(kind: type, found: Mapping[str, Any], key: str) -> Any:
    value = found[key]
    if type(value) is not kind:
        raise ValueError(f"'{key}' is {_SHORT.repr(value)}")
    return value


def _texts(found: object, key: str) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise ValueError(f"'{key}' is {_SHORT.repr(found)}")
    return found
