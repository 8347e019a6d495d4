"""What a flow needs to be allowed on both clusters, and whether it is: all that is missing, at once.

Where this is documented (`docs/security.md`) the same list stands, and a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import re
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import NotAuthorized
from drkit.kafka.admin import Cluster
from drkit.kafka.permissions import CLUSTER_NAME, Need, Operation, Resource, missing
from drkit.kafka.security import read_security
from drkit.kafka.topics import topic_names
from drkit.replicate import mapstore, state_topic
from drkit.replicate.flow_lease import transactional_id

SOURCE: Final = {
    Operation.READ: "fetch records, offsets and leaders",
    Operation.DESCRIBE_CONFIGS: "create the copy with the same settings",
}
"""On every topic that is copied."""
TARGET: Final = {
    Operation.CREATE: "create the copy",
    Operation.READ: "find out where the copy stands",
    Operation.WRITE: "append records",
    Operation.ALTER: "add partitions when the source does",
    Operation.ALTER_CONFIGS: "compare settings, and let old records and large batches in",
}
"""On every copy."""
OPPOSITE: Final = {Operation.READ: "know a flow in the other direction, and not copy back what it wrote"}
"""On the topics ``drkit-…`` of the source, there or not."""
INTERNAL: Final = {
    Operation.CREATE: "keep offsets, leases and events",
    Operation.READ: "go on where the last run ended",
    Operation.WRITE: "keep offsets, leases and events",
}
"""On the topics ``drkit-…`` of the target."""
CLUSTER: Final = {Operation.DESCRIBE_CONFIGS: "read producer.id.expiration.ms of the brokers"}
TRANSACTIONS: Final = {Operation.WRITE: "transactions while catching up, and the flow's lease"}
"""On the transactional ids ``drkit.…`` of the target."""
_PLAIN_NAME: Final = re.compile(r"[\w-]+(?:\\?\.[\w-]+)*")
_SHOWN: Final = 20


def source_needs(flow: FlowSettings, topics: Iterable[str]) -> list[Need]:
    """What the flow does on its source, for the topics it copies."""
    return [*_topics(topics, SOURCE), *_topics([state_topic.topic_name(flow.target)], OPPOSITE)]


def target_needs(flow: FlowSettings, topics: Iterable[str]) -> list[Need]:
    """What the flow does on its target, for the topics of the source that it copies."""
    names = (flow.naming_policy.downstream(t) for t in topics)
    internal = (state_topic.topic_name(flow.source), mapstore.topic_name(flow.source))
    return [
        *_topics(names, TARGET),
        *_topics(internal, INTERNAL),
        *(Need(Resource.CLUSTER, CLUSTER_NAME, o, why) for o, why in CLUSTER.items()),
        *(Need(Resource.TRANSACTIONAL_ID, transactional_id(flow), o, w) for o, w in TRANSACTIONS.items()),
    ]


def _topics(names: Iterable[str], wanted: dict[Operation, str]) -> Iterator[Need]:
    for name in names:
        yield from (Need(Resource.TOPIC, name, o, why) for o, why in wanted.items())


def refuse_missing(clusters: dict[str, Cluster], flows: Iterable[FlowSettings]) -> None:
    """Ask both clusters of every flow.

    Topics that the principal cannot see are not asked for, unless the flow names them without a pattern.

    :raises NotAuthorized: something is missing; all of it is named
    """
    lacking: list[tuple[ClusterSettings, Need]] = []
    for flow in flows:
        source, target = clusters[flow.source], clusters[flow.target]
        topics = _copied(source, flow)
        for cluster, needs in (
            (source, source_needs(flow, topics)),
            (target, target_needs(flow, topics)),
        ):
            lacking += ((cluster.settings, n) for n in missing(cluster.settings, needs))
    if lacking:
        raise _refusal(list(dict.fromkeys((s.alias, n) for s, n in lacking)), dict(_by_alias(lacking)))


def _copied(source: Cluster, flow: FlowSettings) -> list[str]:
    """Topics that are there, or that may be there and are hidden from us."""
    plain = {t.replace("\\", "") for t in flow.topics if _PLAIN_NAME.fullmatch(t)}
    return sorted(t for t in {*topic_names(source), *plain} if flow.copies(t))


def _by_alias(lacking: Iterable[tuple[ClusterSettings, Need]]) -> Iterator[tuple[str, ClusterSettings]]:
    yield from ((settings.alias, settings) for settings, _ in lacking)


def _refusal(lacking: list[tuple[str, Need]], clusters: dict[str, ClusterSettings]) -> NotAuthorized:
    lines = [f"{alias}: {need}" for alias, need in lacking]
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"… and {len(lines) - _SHOWN} more"]
    alias, first = lacking[0]
    return NotAuthorized(
        f"drkit's principal lacks {len(lacking)} permission{'s' if len(lacking) > 1 else ''}",
        where=", ".join(f"{a} as {principal(s)}" for a, s in clusters.items()),
        evidence="\n".join(lines),
        hint=f"as an administrator of {alias}: {acl_command(clusters[alias], first)}",
    )


def principal(settings: ClusterSettings) -> str:
    """Who we are to a cluster, as far as our settings tell."""
    sasl = read_security(settings).sasl
    if sasl is None:
        return "the name in its client certificate" if settings.client else "ANONYMOUS"
    name = sasl.username or (sasl.oauth.client_id if sasl.oauth else sasl.principal)
    return f"User:{name}" if name else "the principal of its ticket"


def acl_command(settings: ClusterSettings, need: Need) -> str:
    """The command that grants a need."""
    resource = {
        Resource.TOPIC: f"--topic '{need.name}'",
        Resource.CLUSTER: "--cluster",
        Resource.TRANSACTIONAL_ID: f"--transactional-id '{need.name}'",
    }[need.resource]
    who = principal(settings)
    return (
        f"kafka-acls --bootstrap-server {settings.bootstrap_servers} --add"
        f" --allow-principal '{who if who.startswith('User:') else 'User:NAME'}'"
        f" --operation {''.join(w.capitalize() for w in need.operation.name.split('_'))} {resource}"
    )


def documentation() -> str:
    """The table of permissions in Markdown, as in the documentation."""
    rows = [
        ("source", "topics that are copied", SOURCE),
        ("source", "topics `drkit-…`, there or not", OPPOSITE),
        ("target", "copies", TARGET),
        ("target", "topics `drkit-…`", INTERNAL),
        ("target", "the cluster", CLUSTER),
        ("target", "transactional ids `drkit.…`", TRANSACTIONS),
    ]
    lines = ["| cluster | resource | operation | to |", "| --- | --- | --- | --- |"]
    lines += [f"| {c} | {r} | {o.name} | {why} |" for c, r, wanted in rows for o, why in wanted.items()]
    return "\n".join(lines) + "\n"
