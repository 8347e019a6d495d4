"""The tables of the page of permissions: what a copy needs, and what settings need."""

from __future__ import annotations

from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.replicate.preflight import (
    ACLS_SOURCE,
    ACLS_TARGET,
    BEATS,
    CHECKPOINTS,
    CLUSTER,
    GONE_GROUPS,
    GONE_TOPICS,
    GROUP_LOG,
    GROUPS_SOURCE,
    GROUPS_TARGET,
    INTERNAL,
    KEEP_GROUPS,
    KEEP_TOPICS,
    NO_ACLS,
    NO_BEATS,
    NO_CARRYING,
    NO_CHECKPOINTS,
    NO_FOLLOWING,
    NO_POSITIONS,
    NO_SYNC,
    NO_SYNCS,
    OPPOSITE,
    SOURCE,
    SYNCS,
    TAKEOVER_GROUP,
    TAKEOVER_TOPIC,
    TARGET,
    TRANSACTIONS,
)


def documentation() -> tuple[str, str]:
    """Return both tables in Markdown, as in the documentation: needs of the copy, and of settings."""
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
    first += [f"| {c} | {r} | {o.name} | {use} |" for c, r, uses in needed for o, use in uses.items()]
    second = ["| cluster | resource | operation | to | not needed with |", "| --- | --- | --- | --- | --- |"]
    second += [
        f"| {c} | {r} | {o.name} | {use} | `{without.replace(' and ', '`, `')}` |"
        for c, r, uses, without in settings
        for o, use in uses.items()
    ]
    return "\n".join(first) + "\n", "\n".join(second) + "\n"
