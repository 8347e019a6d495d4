"""What a local cluster is to be, and the broker configuration that follows from it ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import json
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from drkit.local.link import Link
from drkit.local.ports import HOST, PortReservation
from drkit.local.security import Certificate

INTERNAL = "INTERNAL"
"""Between brokers, and to ask whether one is ready: always plain text on the loopback interface."""
CONTROLLER = "CONTROLLER"
ADMIN = "admin"
"""The super user of a cluster with an authorizer."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A KRaft cluster whose nodes are broker and controller at once.

    :param listeners: one listener with its own port per role
    :param linked: the roles whose advertised addresses go through a :class:`drkit.local.link.Link`
    :param sasl: the ``mechanisms`` on every role's listener, for the ``users`` (name to password)
    :param mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with unsigned tokens
    :param tls: TLS on every role's listener, certificates of an authority made for this cluster
    :param client_auth: with TLS, clients show a certificate of that authority; its CN is their name
    :param authorizer: ACLs are enforced. With SASL or client certificates ``admin`` is the super user and the
        rest is locked; without, every client is ANONYMOUS and everything without an ACL is open
    :param properties: broker properties that override drkit's
    :param heap: the largest heap of a broker, as for ``-Xmx``
    :param jvm: more flags for the JVM; ``-XX:TieredStopAtLevel=4`` trades a slower start for a faster broker
    """

    name: str
    brokers: int = 1
    listeners: tuple[str, ...] = ("CLIENT", "REPLICATION", "PROBE")
    linked: tuple[str, ...] = ()
    sasl: bool = False
    mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-512")
    tls: bool = False
    client_auth: bool = False
    authorizer: bool = False
    users: Mapping[str, str] = field(
        default_factory=lambda: {ADMIN: "admin-password", "drkit": "drkit-password", "app": "app-password"}
    )
    properties: Mapping[str, str] = field(default_factory=dict)
    heap: str = "256m"
    jvm: tuple[str, ...] = ()

    @property
    def protocol(self) -> Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]:
        """Kafka's ``security.protocol`` of the roles' listeners."""
        if self.sasl:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """Where one node listens (ports by listener name) and what it tells clients (ports by role)."""

    host: str
    listen: Mapping[str, int]
    advertise: Mapping[str, int]


def reserve_addresses(
    spec: ClusterSpec, ports: PortReservation, links: Mapping[str, Link] = MappingProxyType({})
) -> NodeAddresses:
    """Ports for all listeners of one more node, and its routes through the links (by role)."""
    listen = {name: ports.reserve() for name in (*spec.listeners, INTERNAL, CONTROLLER)}
    routed = {role: link.add_route(HOST, listen[role]) for role, link in links.items()}
    return NodeAddresses(HOST, listen, listen | routed)


def broker_properties(
    spec: ClusterSpec,
    node_id: int,
    nodes: Sequence[NodeAddresses],
    data: Path,
    certificate: Certificate | None = None,
) -> dict[str, str]:
    """The ``server.properties`` of one node."""
    node = nodes[node_id]
    roles = (*spec.listeners, INTERNAL)
    found = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{number}@{each.host}:{each.listen[CONTROLLER]}" for number, each in enumerate(nodes)
        ),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": ",".join(f"{name}://{node.host}:{port}" for name, port in node.listen.items()),
        "advertised.listeners": ",".join(f"{name}://{node.host}:{node.advertise[name]}" for name in roles),
        "listener.security.protocol.map": ",".join(
            [f"{name}:PLAINTEXT" for name in (INTERNAL, CONTROLLER)]
            + [f"{name}:{spec.protocol}" for name in spec.listeners]
        ),
        "log.dirs": str(data),
        **_small_and_quick(spec.brokers),
    }
    if spec.sasl:
        found |= _sasl(spec)
    if certificate:
        found |= _tls(spec, certificate)
    if spec.authorizer:
        found |= _authorizer(spec)
    return found | dict(spec.properties)


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a properties file for Java, which reads it as Latin-1: all but ASCII is escaped, as in JSON."""
    return "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in properties.items())


def _small_and_quick(brokers: int) -> dict[str, str]:
    replicas = str(min(brokers, 3))
    in_sync = "2" if brokers > 2 else "1"  # noqa: PLR2004  a majority of three
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # The default of 2 s is how long a started broker stays fenced.
        "broker.heartbeat.interval.ms": "250",
        # The default writes two empty records a second: half of what an idle broker works.
        "metadata.max.idle.interval.ms": "0",
        # Votes between processes of one machine take no second.
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.election.backoff.max.ms": "500",
        # A killed broker can come back only when its old session has ended; the default is 9 s.
        "broker.session.timeout.ms": "4000",
        # The default of a minute is how long a switchover waits after a return that has emptied partitions.
        "log.flush.start.offset.checkpoint.interval.ms": "1000",
        "num.network.threads": "1",
        "num.io.threads": "4",
        # The default of 128 MiB is allocated at the start, out of our small heap.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
        "log.cleaner.io.buffer.size": str(256 * 1024),
    }


def _sasl(spec: ClusterSpec) -> dict[str, str]:
    plain = " ".join(f'user_{user}="{password}"' for user, password in spec.users.items())
    modules = {
        "PLAIN": f"plain.PlainLoginModule required {plain};",
        "SCRAM-SHA-256": "scram.ScramLoginModule required;",
        "SCRAM-SHA-512": "scram.ScramLoginModule required;",
        # The broker logs in to itself too; Kafka's own default is to take tokens without a signature.
        "OAUTHBEARER": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    found = {}
    for name in spec.listeners:
        prefix = f"listener.name.{name.lower()}."
        found[prefix + "sasl.enabled.mechanisms"] = ",".join(spec.mechanisms)
        for each in spec.mechanisms:
            module = f"org.apache.kafka.common.security.{modules[each]}"
            found[f"{prefix}{each.lower()}.sasl.jaas.config"] = module
    return found


def _tls(spec: ClusterSpec, certificate: Certificate) -> dict[str, str]:
    found = {}
    for name in spec.listeners:
        prefix = f"listener.name.{name.lower()}.ssl."
        found[prefix + "keystore.type"] = "PKCS12"
        found[prefix + "keystore.location"] = str(certificate.keystore)
        found[prefix + "keystore.password"] = certificate.password
        found[prefix + "key.password"] = certificate.password
        if spec.client_auth:
            found[prefix + "client.auth"] = "required"
            found[prefix + "truststore.type"] = "PEM"
            found[prefix + "truststore.location"] = str(certificate.authority)
    if spec.client_auth:
        found["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
    return found


def _authorizer(spec: ClusterSpec) -> dict[str, str]:
    found = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    if spec.sasl or spec.client_auth:
        # ANONYMOUS is who comes in through INTERNAL and CONTROLLER: the brokers themselves.
        return found | {"super.users": f"User:ANONYMOUS;User:{ADMIN}"}
    return found | {"allow.everyone.if.no.acl.found": "true"}
