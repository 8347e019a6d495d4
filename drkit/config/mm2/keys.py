"""Every key of MirrorMaker 2's settings file and its effect: one table for reader and docs."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class KeySupport(Enum):
    """What drkit does with a key."""

    WORKS = "works"
    LATER = "accepted, works from a later release"
    NOTHING = "accepted, does nothing here"


class Mm2Key(NamedTuple):
    """One key.

    :param default: MM2's own default
    :param field: the flow's setting in drkit.toml that it becomes, if there is one
    :param why: the explanation in a note
    :param agreed: values that match what drkit does anyway, so no note is needed
    :param kept: if the key is absent, MM2's default applies, not drkit's own
    """

    name: str
    default: str
    effect: KeySupport
    field: str = ""
    why: str = ""
    agreed: tuple[str, ...] = ()
    kept: bool = False


_W, _L, _N = KeySupport.WORKS, KeySupport.LATER, KeySupport.NOTHING
_FEWER: Final = "as many as there are brokers, where these are fewer"
_ALWAYS: Final = "drkit always looks for new topics"
_ALWAYS_GROUPS: Final = "drkit always looks for new groups"
_CONFIG_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms, "
    r"log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, "
    r"unclean\.leader\.election\.enable, min\.insync\.replicas"
)

FLOW_KEYS: Final = (
    Mm2Key("topics", ".*", _W, "topics"),
    Mm2Key("topics.exclude", r"mm2.*\.internal, .*\.replica, __.*", _W, "topics_exclude",
           r"until Kafka 4 the default was .*[\-\.]internal, .*\.replica, __.*", kept=True),
    Mm2Key("topics.blacklist", "", _W, "topics_exclude", "the older name of topics.exclude"),
    Mm2Key("groups", ".*", _W, "groups"),
    Mm2Key("groups.exclude", "console-consumer-.*, connect-.*, __.*", _W, "groups_exclude"),
    Mm2Key("groups.blacklist", "", _W, "groups_exclude", "the older name of groups.exclude"),
    Mm2Key("replication.policy.class", "DefaultReplicationPolicy", _W, "naming",
           "DefaultReplicationPolicy is naming prefix, IdentityReplicationPolicy is identity; "
           "your own as a Python class, mypackage.module:ClassName"),
    Mm2Key("replication.policy.separator", ".", _W, "separator"),
    Mm2Key("replication.policy.internal.topic.separator.enabled", "true", _W, "internal_topic_separator",
           "by which name MM2's own topics are known; drkit's have fixed names"),
    Mm2Key("replication.factor", "2", _W, "replication_factor",
           "in drkit.toml the default is: as on the source", kept=True),
    Mm2Key("offset-syncs.topic.replication.factor", "3", _W, "offset_syncs_topic_replication_factor", _FEWER),
    Mm2Key("checkpoints.topic.replication.factor", "3", _W, "checkpoints_topic_replication_factor", _FEWER),
    Mm2Key("heartbeats.topic.replication.factor", "3", _W, "heartbeats_topic_replication_factor", _FEWER),
    Mm2Key("refresh.topics.enabled", "true", _N, "", _ALWAYS, ("true",)),
    Mm2Key("refresh.topics.interval.seconds", "600", _W, "refresh_topics_interval_seconds",
           "when absent: 10, so new topics are found sooner"),
    Mm2Key("refresh.groups.enabled", "true", _N, "", _ALWAYS_GROUPS, ("true",)),
    Mm2Key("refresh.groups.interval.seconds", "600", _N, "", "see refresh_topics_interval_seconds"),
    Mm2Key("sync.topic.configs.enabled", "true", _W, "sync_topic_configs"),
    Mm2Key("sync.topic.configs.interval.seconds", "600", _W, "sync_topic_configs_interval_seconds",
           "when absent: 60, so changes are followed sooner; see sync_topic_configs_delay_seconds"),
    Mm2Key("config.properties.exclude", _CONFIG_EXCLUDE, _W, "config_properties_exclude",
           "drkit's own default keeps min.insync.replicas", kept=True),
    Mm2Key("config.properties.blacklist", "", _W, "config_properties_exclude",
           "the older name of config.properties.exclude"),
    Mm2Key("use.defaults.from", "target", _W, "use_defaults_from"),
    Mm2Key("sync.topic.acls.enabled", "true", _W, "sync_topic_acls"),
    Mm2Key("sync.topic.acls.interval.seconds", "600", _W, "sync_topic_acls_interval_seconds",
           "when absent: 60"),
    Mm2Key("emit.checkpoints.enabled", "true", _W, "emit_checkpoints"),
    Mm2Key("emit.checkpoints.interval.seconds", "60", _W, "checkpoint_interval_seconds", "when absent: 5"),
    Mm2Key("sync.group.offsets.enabled", "false", _W, "sync_group_offsets",
           "in drkit.toml the default is true", kept=True),
    Mm2Key("sync.group.offsets", "", _N, "",
           "Kafka's readme writes it so once; the key is sync.group.offsets.enabled"),
    Mm2Key("sync.group.offsets.interval.seconds", "60", _W, "sync_group_offsets_interval_seconds",
           "when absent: 5"),
    Mm2Key("emit.heartbeats.enabled", "true", _W, "emit_heartbeats",
           "into the source's topic heartbeats, so that they travel with the records"),
    Mm2Key("emit.heartbeats", "", _N, "",
           "Kafka's documentation writes it so once; the key is emit.heartbeats.enabled"),
    Mm2Key("emit.heartbeats.interval.seconds", "1", _W, "heartbeats_interval_seconds"),
    Mm2Key("heartbeats.replication.enabled", "true", _W, "heartbeats_replication"),
    Mm2Key("emit.offset-syncs.enabled", "true", _W, "emit_offset_syncs",
           "for MirrorMaker 2's own readers; drkit goes by its exact offset map"),
    Mm2Key("offset-syncs.topic.location", "source", _W, "offset_syncs_topic_location",
           "in drkit.toml the default is the target", kept=True),
    Mm2Key("offset.lag.max", "100", _W, "offset_lag_max"),
    Mm2Key("tasks.max", "1", _W, "tasks", "in drkit.toml the default is 2", kept=True),
    Mm2Key("consumer.poll.timeout.ms", "1000", _N, "", "see fetch_max_wait_ms"),
    Mm2Key("admin.timeout.ms", "60000", _N, "", "set <alias>.request.timeout.ms"),
)  # fmt: skip
"""Keys of a flow; a key without ``A->B.`` applies to all flows."""

ROLE_NEEDED: Final = (
    "a cluster's own properties say how to connect; for one kind of client write A.consumer.…,"
    " A.producer.… or A.admin.…"
)
"""Why a client property without a role has no effect."""
NO_CLIENT: Final = {
    "consumer": "what drkit reads of its own on the target, it reads as target_producer or target_admin says",
    "producer": "drkit writes no records to the source but heartbeats and offset syncs",
    "admin": "",
}
"""Why an override has no effect on this side, by its role."""

_CONVERTERS: Final = "records are copied as bytes: nothing is converted"
_STORAGE: Final = "drkit keeps its state in its own topics on the target"
_WORKER: Final = "there are no Connect workers"

CONNECT_KEYS: Final = {
    "key.converter": _CONVERTERS,
    "value.converter": _CONVERTERS,
    "header.converter": _CONVERTERS,
    "errors": _CONVERTERS,
    "offset.storage": _STORAGE,
    "status.storage": _STORAGE,
    "config.storage": _STORAGE,
    "offset.flush": _STORAGE,
    "exactly.once.source.support": "copies are always exactly once",
    "transaction.boundary": "copies are always exactly once",
    "dedicated.mode.enable.internal.rest": _WORKER,
    "rest": _WORKER,
    "listeners": _WORKER,
    "admin.listeners": _WORKER,
    "access.control.allow": _WORKER,
    "plugin": _WORKER,
    "group.id": _WORKER,
    "worker": _WORKER,
    "connector.client.config.override.policy": _WORKER,
    "connect.protocol": _WORKER,
    "scheduled.rebalance.max.delay.ms": _WORKER,
    "rebalance.timeout.ms": _WORKER,
    "session.timeout.ms": _WORKER,
    "heartbeat.interval.ms": _WORKER,
    "task.shutdown.graceful.timeout.ms": _WORKER,
    "connector.plugin.version": _WORKER,
    "config.action.reload": _WORKER,
    "inter.worker": _WORKER,
    "metric.names.formats": "metrics reporters are Java classes",
    "offsets.storage.topic": _STORAGE,
    "exactly.once.support": "copies are always exactly once",
    "response.http.headers.config": _WORKER,
    "tasks.max.enforce": _WORKER,
    "topic.tracking": _WORKER,
    "topic.creation": "topics are created like their source",
    "name": _WORKER,
    "connector.class": _WORKER,
    "forwarding.admin.class": "drkit creates topics with Kafka's own requests",
    "config.providers": "${env:...} and ${file:...} always work; there are no others",
    "metric.reporters": "metrics reporters are Java classes",
    "metrics": "metrics reporters are Java classes",
    "add.source.alias.to.metrics": "metrics carry source and target; Kafka 4 dropped the key",
    "source.cluster": "the name of the flow says it: A->B",
    "target.cluster": "the name of the flow says it: A->B",
}
"""Keys, or their prefixes up to a dot, that only Kafka Connect or Java can use → why not here."""


CHOOSES_COPIES: Final = {
    "transforms": "drkit copies records as they are; transform them in an application on the target",
    "predicates": "they choose records for transforms, and drkit copies records as they are",
    "topic.filter.class": "name the topics by topics and topics.exclude, then remove this line",
    "group.filter.class": "name the groups by groups and groups.exclude, then remove this line",
    "config.property.filter.class": "name the settings by config.properties.exclude, then remove this line",
}
"""Keys, or their prefixes up to a dot, that change what is copied and so must not be ignored."""
FILTERS_OF_KAFKA: Final = frozenset(
    {"DefaultTopicFilter", "DefaultGroupFilter", "DefaultConfigPropertyFilter"}
)
"""Kafka's own classes that select by the regular expressions that drkit reads."""


def changes_copies(key: str, value: str) -> str | None:
    """What to do with a key that changes what is copied; None when its value matches what drkit does."""
    if not value.strip() or value.rpartition(".")[2] in FILTERS_OF_KAFKA:
        return None
    return next((to_do for name, to_do in CHOOSES_COPIES.items() if _is_part(key, name)), None)


def _is_part(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def connect_reason(key: str) -> str | None:
    """Why this key has no effect here; None when it is not one of Kafka Connect's."""
    known = CONNECT_KEYS | CHOOSES_COPIES
    return next((why for name, why in known.items() if _is_part(key, name)), None)
