"""What a flow must be allowed on both clusters, and what for: one table for the check and the documentation.

What copying needs is refused when it is missing. What a setting needs beside that is named, and the copy goes
on without. ``docs/how-to/security.md`` shows both tables, and a test keeps them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drkit.config import FlowSettings
from drkit.flow_state.names import (
    bulk_transactional_id,
    lease_transactional_id,
    map_transactional_id,
    offset_map_topic,
    state_topic,
)
from drkit.kafka.access.permissions import CLUSTER_NAME, Need, Resource
from drkit.kafka.groups.tail import OFFSETS_TOPIC
from drkit.mm2_topics.heartbeats import TOPIC as HEARTBEATS
from drkit.takeover import mm2_progress
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
    """What there is on the source that the flow would carry over."""

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()


def copying(flow: FlowSettings, topics: Iterable[str]) -> Sides:
    """What the copy itself needs, with the properties of the admin clients."""
    names = [t for t in topics if not flow.is_heartbeats(t)]
    copies = [flow.naming_policy.downstream(t) for t in names]
    internal = (state_topic(flow.source), offset_map_topic(flow.source))
    taking_over = _taking_over(flow) if flow.takeover_from_mm2 else ()
    return Sides(
        (*_topic_needs(names, SOURCE), *_topic_needs([state_topic(flow.target)], OPPOSITE)),
        (
            *_topic_needs(copies, TARGET),
            *_topic_needs(internal, INTERNAL),
            *_on(Resource.CLUSTER, CLUSTER_NAME, CLUSTER),
            *_transactional_ids([lease_transactional_id(flow.source, flow.target)]),
            *_transactional_ids(_of_buckets(flow, bulk_transactional_id)),
            *taking_over,
        ),
    )


def _of_buckets(flow: FlowSettings, name: Callable[[str, str, int], str]) -> Iterator[str]:
    """The transactional ids of all buckets: a topic that comes later may use any of them."""
    return (name(flow.source, flow.target, bucket) for bucket in range(flow.buckets))


def _taking_over(flow: FlowSettings) -> Iterator[Need]:
    yield from _topic_needs([mm2_progress.offsets_topic(flow.source)], TAKEOVER_TOPIC)
    yield from _on(Resource.GROUP, worker_group(flow.source), TAKEOVER_GROUP)


def moving(flow: FlowSettings, topics: Iterable[str]) -> Sides:
    """What copy tasks do, with the properties of consumer and producer."""
    names = [t for t in topics if not flow.is_heartbeats(t)]
    copies = [flow.naming_policy.downstream(t) for t in names]
    internal = (state_topic(flow.source), offset_map_topic(flow.source))
    read, write = AclOperation.READ, AclOperation.WRITE
    return Sides(
        tuple(_topic_needs(names, {read: SOURCE[read]})),
        (
            *_topic_needs(copies, {o: TARGET[o] for o in (read, write)}),
            *_topic_needs(internal, {o: INTERNAL[o] for o in (read, write)}),
            *_transactional_ids(_of_buckets(flow, bulk_transactional_id)),
            *_transactional_ids(_of_buckets(flow, map_transactional_id)),
        ),
    )


def together(one: Sides, other: Sides) -> Sides:
    """What one principal needs that does both."""
    return Sides(*(tuple(dict.fromkeys((*a, *b))) for a, b in zip(one, other, strict=True)))


def for_settings(flow: FlowSettings, seen: SourceNames, *, once: bool = False) -> dict[str, Sides]:
    """What settings need beside the copy, by the settings with which drkit does without.

    :param once: a copy with an end writes no heartbeats, and asks for all groups
    """
    found: dict[str, Sides] = {}
    if flow.sync_topic_acls:
        found[NO_ACLS] = Sides(
            tuple(_on(Resource.CLUSTER, CLUSTER_NAME, ACLS_SOURCE)),
            tuple(_on(Resource.CLUSTER, CLUSTER_NAME, ACLS_TARGET)),
        )
    if flow.heartbeats_replication and (beats := _beats(flow, seen, once=once)):
        copies = [flow.naming_policy.downstream(t) for t in beats]
        found[NO_CARRYING] = Sides(tuple(_topic_needs(beats, SOURCE)), tuple(_topic_needs(copies, TARGET)))
    if flow.emit_heartbeats and not once:
        found[NO_BEATS] = Sides(source=tuple(_topic_needs([HEARTBEATS], BEATS)))
    if flow.emit_offset_syncs:
        found[NO_SYNCS] = _syncs(flow)
    found |= _positions(flow, seen.groups, once=once)
    if flow.on_source_deleted == "mirror":
        copies = [flow.naming_policy.downstream(t) for t in seen.topics]
        found[KEEP_TOPICS] = Sides(target=tuple(_topic_needs(copies, GONE_TOPICS)))
    return found


def _positions(flow: FlowSettings, groups: Iterable[str], *, once: bool) -> dict[str, Sides]:
    found: dict[str, Sides] = {}
    if flow.emit_checkpoints or flow.sync_group_offsets:
        found[NO_POSITIONS] = Sides(source=tuple(_group_needs(groups, GROUPS_SOURCE)))
        if flow.follow_group_commits and not once:
            found[NO_FOLLOWING] = Sides(source=tuple(_topic_needs([OFFSETS_TOPIC], GROUP_LOG)))
    if flow.sync_group_offsets:
        found[NO_SYNC] = Sides(target=tuple(_group_needs(groups, GROUPS_TARGET)))
        if flow.on_source_group_deleted == "mirror":
            found[KEEP_GROUPS] = Sides(target=tuple(_group_needs(groups, GONE_GROUPS)))
    if flow.emit_checkpoints:
        topic = flow.mm2_topics.checkpoints(flow.source)
        found[NO_CHECKPOINTS] = Sides(target=tuple(_topic_needs([topic], CHECKPOINTS)))
    return found


def _syncs(flow: FlowSettings) -> Sides:
    """ACLs for the topic of offset syncs, which is named after the cluster that does not hold it."""
    on_source = flow.offset_syncs_topic_location == "source"
    topic = flow.mm2_topics.offset_syncs(flow.target if on_source else flow.source)
    needs = tuple(_topic_needs([topic], SYNCS))
    return Sides(source=needs) if on_source else Sides(target=needs)


def _beats(flow: FlowSettings, seen: SourceNames, *, once: bool) -> list[str]:
    """Topics of heartbeats that will be copied: the existing ones, and drkit's own."""
    own = {HEARTBEATS} if flow.emit_heartbeats and not once else set()
    return sorted({t for t in seen.topics if flow.is_heartbeats(t)} | own)


def _topic_needs(names: Iterable[str], wanted: Wanted) -> Iterator[Need]:
    for name in names:
        yield from _on(Resource.TOPIC, name, wanted)


def _transactional_ids(names: Iterable[str]) -> Iterator[Need]:
    for name in names:
        yield from _on(Resource.TRANSACTIONAL_ID, name, TRANSACTIONS)


def _group_needs(names: Iterable[str], wanted: Wanted) -> Iterator[Need]:
    for name in names:
        yield from _on(Resource.GROUP, name, wanted)


def _on(resource: Resource, name: str, wanted: Wanted) -> Iterator[Need]:
    yield from (Need(resource, name, operation, why) for operation, why in wanted.items())


def documentation() -> tuple[str, str]:
    """Both tables in Markdown, as in the documentation: what copying needs, and what settings need."""
    needed = [
        ("source", "topics that are copied", SOURCE),
        ("source", "topics `drkit-…`, there or not", OPPOSITE),
        ("target", "copies", TARGET),
        ("target", "topics `drkit-…`", INTERNAL),
        ("target", "the cluster", CLUSTER),
        ("target", "transactional ids `drkit.…`", TRANSACTIONS),
        ("target", "topic `mm2-offsets.<source>.internal`, with `takeover_from_mm2`", TAKEOVER_TOPIC),
        ("target", "group `<source>-mm2`, with `takeover_from_mm2`", TAKEOVER_GROUP),
    ]
    settings = [
        ("source", "the cluster", ACLS_SOURCE, NO_ACLS),
        ("target", "the cluster", ACLS_TARGET, NO_ACLS),
        ("source", "groups", GROUPS_SOURCE, NO_POSITIONS),
        ("source", f"topic `{OFFSETS_TOPIC}`", GROUP_LOG, NO_FOLLOWING),
        ("target", "groups", GROUPS_TARGET, NO_SYNC),
        ("target", "topic `<source>.checkpoints.internal`", CHECKPOINTS, NO_CHECKPOINTS),
        ("by `offset_syncs_topic_location`", "topic `mm2-offset-syncs.<alias>.internal`", SYNCS, NO_SYNCS),
        ("source", "topic `heartbeats`", BEATS, NO_BEATS),
        ("source", "topics of heartbeats", SOURCE, NO_CARRYING),
        ("target", "copies of these", TARGET, NO_CARRYING),
        ("target", "copies", GONE_TOPICS, KEEP_TOPICS),
        ("target", "groups", GONE_GROUPS, KEEP_GROUPS),
    ]
    first = ["| cluster | resource | operation | to |", "| --- | --- | --- | --- |"]
    first += [f"| {c} | {r} | {o.name} | {why} |" for c, r, wanted in needed for o, why in wanted.items()]
    second = ["| cluster | resource | operation | to | not needed with |", "| --- | --- | --- | --- | --- |"]
    second += [
        f"| {c} | {r} | {o.name} | {why} | `{without.replace(' and ', '`, `')}` |"
        for c, r, wanted, without in settings
        for o, why in wanted.items()
    ]
    return "\n".join(first) + "\n", "\n".join(second) + "\n"
