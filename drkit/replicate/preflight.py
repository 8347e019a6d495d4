"""Checks a flow's permissions on both clusters, and names all missing ones at once, with ACLs.

The tables below are the source of the check and of ``docs/how-to/security.md``; a test keeps them equal. A
missing permission for the copy is an error. One for a setting is reported, and the copy runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import re
from typing import Final, NamedTuple

from drkit import observe
from drkit.checkpoints.other_groups import is_consumer
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import NotAuthorized, Refused
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import held_by_another
from drkit.flow_state.names import (
    bulk_transactional_id,
    map_transactional_id,
    offset_map_topic,
    sole_transactional_id,
    state_topic,
)
from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import own_principal
from drkit.kafka.access.permissions import CLUSTER_NAME, Need, Resource, missing
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.kafka.groups.requests import listed_groups
from drkit.kafka.security.settings import read_security
from drkit.kafka.topics import broker_config, topic_names
from drkit.mm2_topics.heartbeats import TOPIC as HEARTBEATS
from drkit.next_command import quoted
from drkit.replicate.flow_thread import waits_for_return
from drkit.takeover import mm2_takeover
from drkit.topic_sync.rules import refuse_promoted
from drkit.topology.acls import AclOperation
from drkit.topology.naming import worker_group

Wanted = Mapping[AclOperation, str]
"""Operation → what drkit does with it."""

SOURCE: Final[Wanted] = {
    AclOperation.READ: "fetch records, offsets and leaders",
    AclOperation.DESCRIBE_CONFIGS: "create the copy with the same settings",
}
TARGET: Final[Wanted] = {
    AclOperation.CREATE: "create the copy",
    AclOperation.READ: "find the end of the copy",
    AclOperation.WRITE: "append records",
    AclOperation.ALTER: "add partitions when the source does",
    AclOperation.ALTER_CONFIGS: "compare settings, and let old records and large batches in",
}
OPPOSITE: Final[Wanted] = {
    AclOperation.READ: "know a flow in the other direction, and not copy back what it wrote"
}
INTERNAL: Final[Wanted] = {
    AclOperation.CREATE: "keep offsets, leases and events",
    AclOperation.READ: "continue where the last run ended",
    AclOperation.WRITE: "keep offsets, leases and events",
}
CLUSTER: Final[Wanted] = {AclOperation.DESCRIBE_CONFIGS: "read producer.id.expiration.ms of the brokers"}
TRANSACTIONS: Final[Wanted] = {AclOperation.WRITE: "transactions while catching up, and the flow's lease"}
TAKEOVER_TOPIC: Final[Wanted] = {AclOperation.READ: "see how far MirrorMaker 2 got"}
TAKEOVER_GROUP: Final[Wanted] = {AclOperation.DESCRIBE: "see that no worker of it lives"}

ACLS_SOURCE: Final[Wanted] = {AclOperation.DESCRIBE: "read the ACLs"}
ACLS_TARGET: Final[Wanted] = {AclOperation.ALTER: "read, create and delete ACLs"}
GROUPS_SOURCE: Final[Wanted] = {AclOperation.DESCRIBE: "read what the groups have committed"}
GROUP_LOG: Final[Wanted] = {
    AclOperation.READ: "see which groups have committed, and ask for the offsets of no others"
}
GROUPS_TARGET: Final[Wanted] = {AclOperation.READ: "write their positions, and see who works there"}
GONE_GROUPS: Final[Wanted] = {AclOperation.DELETE: "delete a group whose original is gone"}
GONE_TOPICS: Final[Wanted] = {AclOperation.DELETE: "delete a copy whose original is gone"}
CHECKPOINTS: Final[Wanted] = {
    AclOperation.CREATE: "create it once",
    AclOperation.WRITE: "write checkpoints",
    AclOperation.READ: "find those of deleted groups; `drkit translate` when the source is gone",
}
SYNCS: Final[Wanted] = {
    AclOperation.CREATE: "create it once",
    AclOperation.WRITE: "write offset syncs",
    AclOperation.READ: "continue those of the last run",
}
BEATS: Final[Wanted] = {AclOperation.CREATE: "create it once", AclOperation.WRITE: "write heartbeats"}

NO_ACLS: Final = "sync_topic_acls = false"
NO_SYNC: Final = "sync_group_offsets = false"
NO_CHECKPOINTS: Final = "emit_checkpoints = false"
NO_FOLLOWING: Final = "follow_group_commits = false"
NO_POSITIONS: Final = f"{NO_SYNC} and {NO_CHECKPOINTS}"
NO_SYNCS: Final = "emit_offset_syncs = false"
NO_BEATS: Final = "emit_heartbeats = false"
NO_CARRYING: Final = "heartbeats_replication = false"
KEEP_GROUPS: Final = 'on_source_group_deleted = "keep"'
KEEP_TOPICS: Final = 'on_source_deleted = "keep"'


class Sides(NamedTuple):
    """Needs on both clusters of a flow."""

    source: tuple[Need, ...] = ()
    target: tuple[Need, ...] = ()


class SourceNames(NamedTuple):
    """Topics and groups of the source that the flow selects."""

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()


def copying(flow: FlowSettings, topics: Iterable[str]) -> Sides:
    """Return the needs of the copy itself, with the properties of the admin clients."""
    names = [t for t in topics if not flow.is_heartbeats(t)]
    copies = [flow.naming_policy.downstream(t) for t in names]
    internal = (state_topic(flow.source), offset_map_topic(flow.source))
    lease = [sole_transactional_id(flow.source, flow.target, "lease")]
    taking_over = _taking_over(flow) if flow.takeover_from_mm2 else ()
    return Sides(
        (
            *_needs(Resource.TOPIC, names, SOURCE),
            *_needs(Resource.TOPIC, [state_topic(flow.target)], OPPOSITE),
        ),
        (
            *_needs(Resource.TOPIC, copies, TARGET),
            *_needs(Resource.TOPIC, internal, INTERNAL),
            *_needs(Resource.CLUSTER, [CLUSTER_NAME], CLUSTER),
            *_needs(Resource.TRANSACTIONAL_ID, lease, TRANSACTIONS),
            *_of_buckets(flow, bulk_transactional_id),
            *taking_over,
        ),
    )


def _of_buckets(flow: FlowSettings, name: Callable[[str, str, int], str]) -> tuple[Need, ...]:
    """Return the needs for the transactional ids of all buckets: a later topic may use any of them."""
    ids = (name(flow.source, flow.target, bucket) for bucket in range(flow.buckets))
    return _needs(Resource.TRANSACTIONAL_ID, ids, TRANSACTIONS)


def _taking_over(flow: FlowSettings) -> tuple[Need, ...]:
    return (
        *_needs(Resource.TOPIC, [mm2_takeover.offsets_topic(flow.source)], TAKEOVER_TOPIC),
        *_needs(Resource.GROUP, [worker_group(flow.source)], TAKEOVER_GROUP),
    )


def moving(flow: FlowSettings, topics: Iterable[str]) -> Sides:
    """Return the needs of copy tasks, with the properties of consumer and producer."""
    names = [t for t in topics if not flow.is_heartbeats(t)]
    copies = [flow.naming_policy.downstream(t) for t in names]
    internal = (state_topic(flow.source), offset_map_topic(flow.source))
    read, write = AclOperation.READ, AclOperation.WRITE
    return Sides(
        _needs(Resource.TOPIC, names, {read: SOURCE[read]}),
        (
            *_needs(Resource.TOPIC, copies, {o: TARGET[o] for o in (read, write)}),
            *_needs(Resource.TOPIC, internal, {o: INTERNAL[o] for o in (read, write)}),
            *_of_buckets(flow, bulk_transactional_id),
            *_of_buckets(flow, map_transactional_id),
        ),
    )


def together(one: Sides, other: Sides) -> Sides:
    """Return the needs of a principal that does both."""
    return Sides(*(tuple(dict.fromkeys((*a, *b))) for a, b in zip(one, other, strict=True)))


def for_settings(flow: FlowSettings, seen: SourceNames, *, once: bool = False) -> dict[str, Sides]:
    """Return the needs of settings beside the copy, by the settings that make them unnecessary.

    :param once: a copy with an end writes no heartbeats, and reads the offsets of all groups
    """
    needs: dict[str, Sides] = {}
    if flow.sync_topic_acls:
        needs[NO_ACLS] = Sides(
            _needs(Resource.CLUSTER, [CLUSTER_NAME], ACLS_SOURCE),
            _needs(Resource.CLUSTER, [CLUSTER_NAME], ACLS_TARGET),
        )
    if flow.heartbeats_replication and (heartbeats := _heartbeat_topics(flow, seen, once=once)):
        copies = [flow.naming_policy.downstream(t) for t in heartbeats]
        carried, written = _needs(Resource.TOPIC, heartbeats, SOURCE), _needs(Resource.TOPIC, copies, TARGET)
        needs[NO_CARRYING] = Sides(carried, written)
    if flow.emit_heartbeats and not once:
        needs[NO_BEATS] = Sides(source=_needs(Resource.TOPIC, [HEARTBEATS], BEATS))
    if flow.emit_offset_syncs:
        needs[NO_SYNCS] = _sync_needs(flow)
    needs |= _positions(flow, seen.groups, once=once)
    if flow.on_source_deleted == "mirror":
        copies = [flow.naming_policy.downstream(t) for t in seen.topics]
        needs[KEEP_TOPICS] = Sides(target=_needs(Resource.TOPIC, copies, GONE_TOPICS))
    return needs


def _positions(flow: FlowSettings, groups: Iterable[str], *, once: bool) -> dict[str, Sides]:
    needs: dict[str, Sides] = {}
    if flow.emit_checkpoints or flow.sync_group_offsets:
        needs[NO_POSITIONS] = Sides(source=_needs(Resource.GROUP, groups, GROUPS_SOURCE))
        if flow.follow_group_commits and not once:
            needs[NO_FOLLOWING] = Sides(source=_needs(Resource.TOPIC, [OFFSETS_TOPIC], GROUP_LOG))
    if flow.sync_group_offsets:
        needs[NO_SYNC] = Sides(target=_needs(Resource.GROUP, groups, GROUPS_TARGET))
        if flow.on_source_group_deleted == "mirror":
            needs[KEEP_GROUPS] = Sides(target=_needs(Resource.GROUP, groups, GONE_GROUPS))
    if flow.emit_checkpoints:
        topic = flow.mm2_topics.checkpoints(flow.source)
        needs[NO_CHECKPOINTS] = Sides(target=_needs(Resource.TOPIC, [topic], CHECKPOINTS))
    return needs


def _sync_needs(flow: FlowSettings) -> Sides:
    """Return the needs for the topic of offset syncs, named after the cluster that does not hold it."""
    on_source = flow.offset_syncs_topic_location == "source"
    topic = flow.mm2_topics.offset_syncs(flow.target if on_source else flow.source)
    needs = _needs(Resource.TOPIC, [topic], SYNCS)
    return Sides(source=needs) if on_source else Sides(target=needs)


def _heartbeat_topics(flow: FlowSettings, seen: SourceNames, *, once: bool) -> list[str]:
    own = {HEARTBEATS} if flow.emit_heartbeats and not once else set()
    return sorted({t for t in seen.topics if flow.is_heartbeats(t)} | own)


def _needs(resource: Resource, names: Iterable[str], reasons: Wanted) -> tuple[Need, ...]:
    return tuple(
        Need(resource, name, operation, reason) for name in names for operation, reason in reasons.items()
    )


_PLAIN_NAME: Final = re.compile(r"[\w-]+(?:\\?\.[\w-]+)*")
_LETTERS: Final = re.compile(r"(?:(?:[\w-]|\\[.-])(?![*?+{]))*")
_ALL: Final = "*"
_SHOWN: Final = 20
_SEE_GROUPS: Final = Need(Resource.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE, "list all groups")
_Both = tuple[ClusterSettings, ClusterSettings]


class Lack(NamedTuple):
    """A permission that one of drkit's principals does not have."""

    alias: str
    principal: str
    tool: str
    """The beginning of the command that grants it."""
    need: Need


def refuse_missing(
    settings: Settings,
    clusters: Mapping[str, Cluster],
    flows: Iterable[FlowSettings],
    *,
    strict: bool = False,
) -> None:
    """Check on both clusters of every flow the permissions that copying needs.

    Topics and groups that the principal cannot see are not checked, unless the flow names them without a
    pattern.

    :param clusters: as the flows' admin clients reach them
    :param strict: check also the needs of settings
    :raises NotAuthorized: permissions are missing; the error names all of them
    """
    lacking: list[Lack] = []
    without: list[str] = []
    for flow in flows:
        topics, sides = _topics(clusters[flow.source], flow), _sides(clusters, flow)
        to_copy, to_move = copying(flow, topics), moving(flow, topics)
        if (tasks := settings.task_sides(flow)) == sides:
            lacking += _lacking(sides, together(to_copy, to_move))
        else:
            lacking += _lacking(sides, to_copy) + _lacking(tasks, to_move)
        if strict:
            for setting, found in _for_settings(clusters, flow, once=False).items():
                lacking += found
                without.append(setting)
    if lacking:
        raise _refusal(list(dict.fromkeys(lacking)), list(dict.fromkeys(without)))


def refuse_unready(target: Cluster, flow: FlowSettings, *, once: bool = False) -> Refused | None:
    """Refuse a target that no run can work with, before Spark takes seconds to start.

    :returns: the refusal of a flow that another process of this machine runs; one elsewhere may be dead
    :raises NotAuthorized: drkit's principal lacks a right; the error names where
    :raises Refused: the target was promoted, and the flow does not wait for a return
    """
    ensure_state_topic(target, flow)
    broker_config(target)
    with StateTopic(target.settings, flow.source) as state:
        state.load()
        if not waits_for_return(flow, once=once):
            refuse_promoted(flow, state.records)
        lease = state.get(LeaseRecord)
    return held_by_another(flow.name, lease) if lease is not None and lives_here(lease.holder) else None


def tell_missing(clusters: Mapping[str, Cluster], flows: Iterable[FlowSettings], *, once: bool) -> None:
    """Emit an event for each setting that needs a missing permission; the copy continues without it.

    :param once: a copy with an end writes no heartbeats
    """
    for flow in flows:
        for setting, lacking in _for_settings(clusters, flow, once=once).items():
            observe.event("permissions_missing", level="warning", flow=flow.name, lacks=_lines(lacking),
                          hint="\n".join([*_commands(lacking), f"or {setting}"]))  # fmt: skip


def _sides(clusters: Mapping[str, Cluster], flow: FlowSettings) -> _Both:
    return clusters[flow.source].settings, clusters[flow.target].settings


def _for_settings(
    clusters: Mapping[str, Cluster], flow: FlowSettings, *, once: bool
) -> dict[str, list[Lack]]:
    """Return the missing permissions for settings, by the settings that make them unnecessary."""
    source = clusters[flow.source]
    seen = SourceNames(_topics(source, flow), _groups(source, flow))
    needed = for_settings(flow, seen, once=once)
    needs = zip(*needed.values(), strict=True) if needed else ((), ())
    all_needs = Sides(*(tuple(dict.fromkeys(n for group in side for n in group)) for side in needs))
    lacking = _lacking(_sides(clusters, flow), all_needs)
    by_setting = {
        setting: [x for x in lacking if x.need in (sides.source if x.alias == flow.source else sides.target)]
        for setting, sides in needed.items()
    }
    return {setting: lacks for setting, lacks in by_setting.items() if lacks}


def _topics(source: Cluster, flow: FlowSettings) -> tuple[str, ...]:
    return tuple(sorted(t for t in {*topic_names(source), *_plain(flow.topics)} if flow.copies(t)))


def _groups(source: Cluster, flow: FlowSettings) -> tuple[str, ...]:
    """Return the existing groups, or the beginnings of their names if drkit may not see them."""
    existing = {g for g, x in listed_groups(source.settings).items() if is_consumer(x)}
    names = {g for g in existing | _plain(flow.groups) if flow.group_filter.accepts(g)}
    if not names and missing(source.settings, [_SEE_GROUPS]):
        names = {_beginning(p) or _ALL for p in flow.groups}
    return tuple(sorted(names))


def _beginning(pattern: str) -> str:
    text = _LETTERS.match(pattern)
    return text[0].replace("\\", "") if text and "|" not in pattern else ""


def _plain(patterns: Iterable[str]) -> set[str]:
    return {p.replace("\\", "") for p in patterns if _PLAIN_NAME.fullmatch(p)}


def _lacking(both: _Both, needs: Sides) -> list[Lack]:
    return [
        Lack(settings.alias, principal(settings), _tool(settings), need)
        for settings, needed in zip(both, needs, strict=True)
        for need in (missing(settings, needed) if needed else ())
    ]


def _refusal(lacking: Sequence[Lack], without: Sequence[str]) -> NotAuthorized:
    hints = [*_commands(lacking), *(f"or, to do without: {setting}" for setting in without)]
    return NotAuthorized(
        "permissions_missing",
        where=", ".join(dict.fromkeys(f"{x.alias} as {x.principal}" for x in lacking)),
        evidence="\n".join(_lines(lacking)),
        hint="\n".join(hints),
        count=len(lacking),
        plural="s" if len(lacking) > 1 else "",
    )


def _lines(lacking: Sequence[Lack]) -> list[str]:
    """Format them as ``kafka-acls --list`` does, with the cluster and the reason."""
    groups: dict[tuple[str, Need], list[str]] = {}
    for alias, _, _, need in lacking:
        groups.setdefault((alias, _family(need)), []).append(need.name)
    lines = [f"{alias}: {need._replace(name=first_of(of, _SHOWN))}" for (alias, need), of in groups.items()]
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"… and {len(lines) - _SHOWN} more"]


def _family(need: Need) -> Need:
    return need._replace(name="") if need.resource is Resource.TRANSACTIONAL_ID else need


def _commands(lacking: Sequence[Lack]) -> list[str]:
    """Return the commands that grant all of it, one for each resource; one for all transactional ids."""
    grants: dict[tuple[str, Resource, str], tuple[dict[str, None], dict[str, None]]] = {}
    for _, _, tool, need in lacking:
        operation = "".join(word.capitalize() for word in need.operation.name.split("_"))
        operations, resources = grants.setdefault((tool, need.resource, _family(need).name), ({}, {}))
        operations[f"--operation {operation}"] = None
        resources[_resource(need)] = None
    commands = [" ".join((tool, *operations, *of)) for (tool, *_), (operations, of) in grants.items()]
    if (more := len(commands) - _SHOWN) > 0:
        shorter = f"… and {more} more; fewer by the beginnings of names: see drkit explain security"
        commands = [*commands[:_SHOWN], shorter]
    return ["as an administrator:", *commands]


def _resource(need: Need) -> str:
    return {
        Resource.TOPIC: f"--topic {quoted(need.name)}",
        Resource.GROUP: f"--group {quoted(need.name)}",
        Resource.CLUSTER: "--cluster",
        Resource.TRANSACTIONAL_ID: f"--transactional-id {quoted(need.name)}",
    }[need.resource]


def _tool(settings: ClusterSettings) -> str:
    tool = f"kafka-acls --bootstrap-server {settings.bootstrap_servers}"
    if read_security(settings).protocol != "PLAINTEXT":
        tool += " --command-config admin.properties"
    who = principal(settings)
    return f"{tool} --add --allow-principal {quoted(who if ':' in who else 'User:NAME')}"


def principal(settings: ClusterSettings) -> str:
    """Return the principal of drkit on a cluster, as far as the settings show it."""
    if (own := own_principal(settings)) is not None:
        return own
    sasl = read_security(settings).sasl
    if sasl is None:
        return "the name in its client certificate"
    name = sasl.oauth.client_id if sasl.oauth else sasl.principal
    return f"User:{name}" if name else "the principal of its ticket"
