"""Kafka's client properties by role: which exist, which have an effect, and why the others do not.

The names are those of ``AdminClientConfig``, ``ConsumerConfig`` and ``ProducerConfig`` of Kafka 4.3; a test
asks the real classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import KafkaText, closest, host_and_port
from drkit.config.tables.security_properties import SECURITY
from drkit.masking import MASK, is_secret, scrubbed

Role = Literal["consumer", "producer", "admin"]

CONNECTION: Final = frozenset({
    "bootstrap.servers", "client.id", "connections.max.idle.ms", "metadata.max.age.ms",
    "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms",
    "send.buffer.bytes", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
})  # fmt: skip
"""Properties that both client libraries support, besides those of security."""
_COMMON: Final = frozenset({
    "client.dns.lookup", "config.providers", "enable.metrics.push",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "retry.backoff.max.ms", "retry.backoff.ms",
})  # fmt: skip
_OF_ROLE: Final[dict[Role, frozenset[str]]] = {
    "admin": frozenset({"bootstrap.controllers", "default.api.timeout.ms", "retries"}),
    "consumer": frozenset({
        "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs",
        "client.rack", "default.api.timeout.ms", "enable.auto.commit", "exclude.internal.topics",
        "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id",
        "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes",
        "isolation.level", "key.deserializer", "max.partition.fetch.bytes", "max.poll.interval.ms",
        "max.poll.records", "partition.assignment.strategy", "session.timeout.ms",
        "share.acknowledgement.mode", "share.acquire.mode", "value.deserializer",
    }),
    "producer": frozenset({
        "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level",
        "compression.type", "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence",
        "interceptor.classes", "key.serializer", "linger.ms", "max.block.ms",
        "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
        "partitioner.class", "partitioner.ignore.keys", "retries", "transaction.timeout.ms",
        "transactional.id", "transaction.two.phase.commit.enable", "value.serializer",
    }),
}  # fmt: skip
FLOW_FIELDS: Final[dict[tuple[str, str], str]] = {
    ("consumer", "fetch.max.bytes"): "fetch_max_bytes",
    ("consumer", "max.partition.fetch.bytes"): "fetch_partition_max_bytes",
    ("consumer", "fetch.max.wait.ms"): "fetch_max_wait_ms",
    ("producer", "max.request.size"): "produce_request_bytes",
    ("producer", "max.in.flight.requests.per.connection"): "produce_in_flight",
}
"""Properties that are settings of the flow: (role, Kafka's name) → the setting."""

ROLES: Final[dict[str, Role]] = {
    "source_consumer": "consumer",
    "source_admin": "admin",
    "target_producer": "producer",
    "target_admin": "admin",
}
"""A flow's settings that hold client properties → their role."""


class Idle(NamedTuple):
    """Why a property does nothing here, and with which values nothing need be said."""

    why: str
    agreed: tuple[str, ...] = ()


_CODEC: Final = Idle("batches keep the codec that the source's producers chose")
_BATCHES: Final = Idle("batches travel as they are; merge_below_bytes and merge_up_to_bytes join small ones")
_COMMITTED: Final = Idle("only committed records are copied", ("read_committed",))
IDLE: Final = {
    "acks": Idle("every append waits for all in-sync replicas", ("all", "-1")),
    "auto.offset.reset": Idle("a first copy begins with the oldest record", ("earliest",)),
    "batch.size": _BATCHES,
    "buffer.memory": Idle("a copy task bounds the bytes it holds itself"),
    "client.rack": Idle("records are fetched from the partitions' leaders"),
    "compression.gzip.level": _CODEC,
    "compression.lz4.level": _CODEC,
    "compression.type": _CODEC,
    "compression.zstd.level": _CODEC,
    "enable.idempotence": Idle("appends are always idempotent", ("true",)),
    "isolation.level": _COMMITTED,
    "linger.ms": _BATCHES,
}
"""Properties without effect here that users set for a reason."""
_JAVA: Final = Idle("it steers code that only Java's clients have")


def acts(name: str) -> bool:
    """Whether a property is about the connection: a role's value then overrides the cluster's."""
    return name in CONNECTION or name in SECURITY


def idle(role: str, name: str, value: str) -> str:
    """Why a property of this role has no effect; empty when it has one or matches what drkit does anyway."""
    if acts(name) or (role, name) in FLOW_FIELDS:
        return ""
    found = IDLE.get(name, _JAVA)
    return "" if value.strip().lower() in found.agreed else found.why


def exists(role: Role, name: str) -> bool:
    """Whether Kafka's clients of this role have such a property."""
    return name in _known(role)


def is_kafkas(name: str) -> bool:
    """Whether some client of Kafka's has such a property."""
    return any(exists(role, name) for role in _OF_ROLE)


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return client properties without secrets: a name that Kafka does not know may be a misspelt one."""
    return {
        name: scrubbed(value) if is_kafkas(name) and not is_secret(name) else MASK
        for name, value in properties.items()
    }


def meant(role: Role, name: str) -> str:
    """A hint for the name of a property that this role does not have."""
    if others := sorted(r for r in _OF_ROLE if exists(r, name)):
        return f"it is one of Kafka's {' and '.join(others)}"
    near = closest(name, sorted(_known(role)))
    return f"did you mean '{near}'?" if near else "Kafka's documentation lists them"


def nearest(name: str) -> str:
    """A hint for a property that a cluster's ``client`` cannot have; empty if no name is close."""
    if roles := [setting for setting, role in ROLES.items() if exists(role, name)]:
        return f"only one kind of client has it: {' or '.join(roles)} of a flow"
    near = closest(name, sorted(frozenset.union(*map(_known, _OF_ROLE))))
    return f"did you mean '{near}'?" if near else ""


def _known(role: Role) -> frozenset[str]:
    return CONNECTION | _COMMON | SECURITY | _OF_ROLE[role]


def _named(role: Role) -> AfterValidator:
    """Check one name, so that an error says which property of the table is wrong."""

    def check(name: str) -> str:
        what = {"name": name, "role": role}
        if not exists(role, name):
            text = "there is no property '{name}' of Kafka's {role}: {hint}"
            raise PydanticCustomError("property", text, {**what, "hint": meant(role, name)})
        if field := FLOW_FIELDS.get((role, name)):
            raise PydanticCustomError("property", "'{name}' is {field} of the flow", {**what, "field": field})
        return name

    return AfterValidator(check)


def _with_servers(properties: dict[str, str]) -> dict[str, str]:
    if (servers := properties.get("bootstrap.servers")) is not None:
        host_and_port(servers)
    return properties


_Checked = AfterValidator(_with_servers)
ConsumerProperties = Annotated[dict[Annotated[str, _named("consumer")], str], KafkaText, _Checked]
ProducerProperties = Annotated[dict[Annotated[str, _named("producer")], str], KafkaText, _Checked]
AdminProperties = Annotated[dict[Annotated[str, _named("admin")], str], KafkaText, _Checked]
