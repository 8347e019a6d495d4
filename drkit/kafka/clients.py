"""Configurations of both client libraries from one set of Kafka properties, and confluent-kafka's clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
import logging
import os
from pathlib import Path
import socket
import ssl
import tempfile
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from drkit.config import ClusterSettings
from drkit.errors import ConfigError
from drkit.kafka.codes import FENCED
from drkit.kafka.security.oauth import ClientCredentials
from drkit.kafka.security.settings import Sasl, Security, Tls, read_security

__all__ = [
    "TIMESTAMP_LOG_APPEND_TIME",
    "ConfluentPartition",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "Producer",
]
WrittenRecord = tuple[int, bytes | None, bytes | None, dict[str, str | bytes | None] | None]
"""Partition, key, value and headers of a record to write."""
QUIET: Final = logging.getLogger("drkit.librdkafka")
"""A logger that keeps librdkafka from writing to stderr."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_JAVA_TO_LIBRDKAFKA: Final = {
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
# These steer code that only Java's clients have; leaving them out changes nothing for drkit.
_JAVA_ONLY: Final = frozenset({
    "default.api.timeout.ms",
    "key.deserializer",
    "key.serializer",
    "metric.reporters",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "security.providers",
    "socket.connection.setup.timeout.max.ms",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.protocol",
    "ssl.truststore.password",
    "value.deserializer",
    "value.serializer",
})  # fmt: skip
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "security.", "https.", "enable.ssl.")
_TUNING: Final = ("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list", "ssl.providers")
_RAW_NUMBERS: Final = (
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)
_BUFFERS: Final = {"send.buffer.bytes": socket.SO_SNDBUF, "receive.buffer.bytes": socket.SO_RCVBUF}
NUMBERS: Final = (*_RAW_NUMBERS, *_BUFFERS)
"""Properties whose values are whole numbers."""
_SOCKET_TIMEOUT: Final = {"socket.timeout.ms": 10_000}
"""A frozen broker never answers what was sent to it; after 9 s, by default, another leads its partitions."""
_OWN_PRODUCER: Final = {
    **_SOCKET_TIMEOUT,
    "acks": "all",
    "allow.auto.create.topics": False,
    "batch.size": 1_000_000,
    "linger.ms": 0,
    "log_level": 0,
    "max.in.flight.requests.per.connection": 5,
    "queuing.strategy": "fifo",
    "retries": 2_147_483_647,
}
"""Fixed: with other values librdkafka refuses transactions, or drkit's readers pass over a batch."""


def confluent_config(settings: ClusterSettings) -> dict[str, Any]:
    """Return the cluster's configuration for confluent-kafka.

    :raises ConfigError: security settings that are incomplete or need Java
    """
    security = read_security(settings)
    own = {"bootstrap.servers": settings.bootstrap_servers, "client.id": "drkit"}
    config: dict[str, Any] = {**own, **_SOCKET_TIMEOUT}
    for key, value in settings.client.items():
        if key in _TUNING or not (key.startswith(_SECURITY_PREFIXES) or key in _JAVA_ONLY):
            config[_JAVA_TO_LIBRDKAFKA.get(key, key)] = value
    config["security.protocol"] = security.protocol
    if security.tls:
        config |= _confluent_tls(security.tls)
    if security.sasl:
        config |= _confluent_sasl(security.sasl)
    return config


def own_producer(settings: ClusterSettings, more: Mapping[str, Any]) -> Producer:
    """Return a producer that sends at once and creates no topic.

    :param more: properties, such as a transactional id
    """
    own = {**_OWN_PRODUCER, **more}
    users = {key: value for key, value in confluent_config(settings).items() if key not in own}
    return Producer({**users, **own}, logger=QUIET)  # of two names of one property the last one counts


def raw_config(settings: ClusterSettings) -> dict[str, Any]:
    """Return the cluster's configuration for kafka-python's KafkaConnectionManager.

    :raises ConfigError: security settings that are incomplete, need Java, or name files that do not load
    """
    security = read_security(settings)
    config: dict[str, Any] = {
        "bootstrap_servers": settings.servers,
        "client_id": settings.client.get("client.id", "drkit"),
        "security_protocol": security.protocol,
    }
    for key in _RAW_NUMBERS:
        if key in settings.client:
            config[key.replace(".", "_")] = _whole_number(settings, key)
    if options := [
        (socket.SOL_SOCKET, option, _whole_number(settings, key))
        for key, option in _BUFFERS.items()
        if key in settings.client
    ]:
        config["socket_options"] = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            *options,
        ]
    return config | _raw_security(settings, security)


def refuse_unusable(settings: ClusterSettings) -> None:
    """Refuse a file or number that a client cannot use, and name it: the library does not.

    :raises ConfigError: a certificate or key does not load, or a number is not one
    """
    security = read_security(settings)
    if security.tls:
        tls_context(security.tls, f"clusters.{settings.alias}.client")
    for key in NUMBERS:
        if key in settings.client:
            _whole_number(settings, key)


def tls_context(tls: Tls, where: str) -> ssl.SSLContext:
    """Convert the TLS settings for Python. Raises ConfigError if a file does not load."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_hostname and tls.verify
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    try:
        if tls.ca_file or tls.ca_pem:
            context.load_verify_locations(cafile=tls.ca_file, cadata=tls.ca_pem)
        else:
            context.load_default_certs()
        if tls.certificate_file:
            context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password)
        elif tls.certificate_pem and tls.key_pem:
            _load_pem(context, f"{tls.key_pem}\n{tls.certificate_pem}", tls.key_password)
    except (OSError, ssl.SSLError) as error:
        evidence = " ".join([str(error), *filter(None, (tls.ca_file, tls.certificate_file))])
        raise ConfigError("certificate_unusable", where=where, evidence=evidence) from error
    return context


def _load_pem(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python reads keys only from files: Linux has some that are nothing but memory.
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "w", encoding="utf-8") as memory:
            memory.write(text)
            memory.flush()
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}", None, password)
        return
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        context.load_cert_chain(name, None, password)
    finally:
        Path(name).unlink()


def _confluent_tls(tls: Tls) -> dict[str, Any]:
    properties = {
        "ssl.ca.location": tls.ca_file,
        "ssl.ca.pem": tls.ca_pem,
        "ssl.certificate.location": tls.certificate_file,
        "ssl.certificate.pem": tls.certificate_pem,
        "ssl.key.location": tls.key_file,
        "ssl.key.pem": tls.key_pem,
        "ssl.key.password": tls.key_password,
    }
    return {k: v for k, v in properties.items() if v is not None} | {
        "enable.ssl.certificate.verification": tls.verify,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }


def _confluent_sasl(sasl: Sasl) -> dict[str, Any]:
    if sasl.oauth:
        properties = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": sasl.oauth.url,
            "sasl.oauthbearer.client.id": sasl.oauth.client_id,
            "sasl.oauthbearer.client.secret": sasl.oauth.client_secret,
            "sasl.oauthbearer.scope": sasl.oauth.scope,
            "https.ca.location": sasl.oauth.ca_file,
        }
    elif sasl.mechanism == "GSSAPI":
        properties = {
            "sasl.kerberos.service.name": sasl.kerberos_service,
            "sasl.kerberos.principal": sasl.principal,
            "sasl.kerberos.keytab": sasl.keytab,
        }
    else:
        properties = {"sasl.username": sasl.username, "sasl.password": sasl.password}
    return {"sasl.mechanism": sasl.mechanism} | {k: v for k, v in properties.items() if v is not None}


def _raw_security(settings: ClusterSettings, security: Security) -> dict[str, Any]:
    config: dict[str, Any] = {}
    where = f"clusters.{settings.alias}.client"
    if security.tls:
        config["ssl_context"] = tls_context(security.tls, where)
    if sasl := security.sasl:
        if sasl.mechanism == "GSSAPI" and find_spec("gssapi") is None:
            raise ConfigError("kerberos_missing", where=where)
        username = sasl.username
        if username and sasl.mechanism.startswith("SCRAM"):  # RFC 5802, 5.1; librdkafka does this itself
            username = username.replace("=", "=3D").replace(",", "=2C")
        config |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": username,
            "sasl_plain_password": sasl.password,
            "sasl_kerberos_service_name": sasl.kerberos_service,
        }
        if sasl.oauth:
            config["sasl_oauth_token_provider"] = ClientCredentials(sasl.oauth, where)
    return config


def _whole_number(settings: ClusterSettings, key: str) -> int:
    try:
        return int(settings.client[key])
    except ValueError:
        where = f"clusters.{settings.alias}.client"
        value = settings.client[key]
        raise ConfigError("client_property_not_a_number", where=where, key=key, value=value) from None


@dataclass
class Delivery:
    """The result of writing some records."""

    failed: list[KafkaError] = field(default_factory=list)
    """Errors of records that were not acknowledged, or empty if all were."""
    first: dict[int, int] = field(default_factory=dict)
    """Partition → offset of the first record; a higher one if records of others lie between them."""

    @property
    def evidence(self) -> str:
        """The first error, or empty without one."""
        return f"{self.failed[0].name()}: {self.failed[0].str()}" if self.failed else ""


def is_fenced(error: KafkaException) -> bool:
    """Return whether another producer took the transactional id meanwhile."""
    code = error.args[0].code()
    return code in FENCED or code == KafkaError._FENCED  # noqa: SLF001  the constant's only name


def deliver(producer: Producer, topic: str, records: Iterable[WrittenRecord], seconds: float) -> Delivery:
    """Write records in their order, and wait until each is acknowledged or has failed.

    :param seconds: a record without an answer after this time has failed
    """
    delivery, sent, written = Delivery(), 0, Counter[int]()

    def take(error: KafkaError | None, message: Message | None) -> None:
        if error is not None:
            delivery.failed.append(error)
        elif message is not None:
            written[partition := message.partition() or 0] += 1
            delivery.first[partition] = (message.offset() or 0) + 1 - written[partition]

    for partition, key, value, headers in records:
        sent += 1
        while True:
            try:
                producer.produce(topic, value, key, partition=partition, headers=headers, on_delivery=take)
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as error:  # the client knows already that the topic is gone
                take(error.args[0], None)
            break
    producer.flush(seconds)
    if written.total() < sent and not delivery.failed:
        delivery.failed.append(KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001  the constant's only name
    return delivery
