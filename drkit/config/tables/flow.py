"""One direction of replication."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.tables.client_properties import (
    ROLES,
    AdminProperties,
    ConsumerProperties,
    ProducerProperties,
    masked,
)
from drkit.config.tables.fields import TO_DO, Alias, Listed, Patterns, Strict
from drkit.config.tables.naming_class import checked, is_own_class, own_naming
from drkit.model import FlowAliases
from drkit.topology import (
    DEFAULT_CONFIG_EXCLUDE,
    DEFAULT_GROUPS_EXCLUDE,
    DEFAULT_TOPICS_EXCLUDE,
    ConfigRules,
    IdentityNaming,
    Mm2Topics,
    NameFilter,
    Naming,
    PrefixNaming,
    excluded_groups,
    may_copy,
)
from drkit.topology.acl_scope import AclScope
from drkit.topology.naming import is_heartbeats

_KIB = 1024
_MIB = 1024 * 1024
_BROKER_DEFAULT = -1


class FlowSettings(Strict):
    """One direction of replication."""

    source: Alias
    """Alias of the cluster to copy from."""
    target: Alias
    """Alias of the cluster to copy to."""
    topics: Patterns = (".*",)
    """Which topics of the source: regular expressions for the whole name; an empty list matches none."""
    topics_exclude: Patterns = DEFAULT_TOPICS_EXCLUDE
    """Topics left out although ``topics`` accepts them."""
    groups: Patterns = (".*",)
    """Whose offsets are carried over: regular expressions for the whole name of a consumer group."""
    groups_exclude: Patterns = DEFAULT_GROUPS_EXCLUDE
    """Groups left out although ``groups`` accepts them."""
    separator: Annotated[str, Field(pattern=r"^[._-]$")] = "."
    """Between alias and topic in prefixed names."""
    naming: str = "identity"
    """``"identity"``: topics keep their names; ``"prefix"``: they get the source's alias in front;
    ``"mypackage.module:ClassName"``: your own class."""

    opposite_flows: Annotated[tuple[Alias, ...], Listed] | None = None
    """Flows in the other direction with the same topic names: what they wrote is not copied back. Each is
    named by the alias that its own configuration gives to this flow's target. Absent: the flow of this file
    in the other direction; topics into which any other one copies are left out. An empty list: no flow."""

    internal_topic_separator: bool = True
    """MirrorMaker 2's own topics have the separator in their names too; false: always a dot. drkit's have
    fixed names."""

    takeover_from_mm2: bool = False
    """Continue where MirrorMaker 2 stopped instead of copying from the start; it must be stopped."""
    tasks: int = Field(2, gt=0, le=10_000)
    """Copy tasks that run at once."""
    buckets: PositiveInt = 16
    """Partitions of the offset map and transactional ids of bulk mode. Fixed once the flow has run."""
    epoch_seconds: PositiveFloat = 300.0
    """How long tasks copy before the work is dealt out again."""
    lease_seconds: float = Field(15.0, ge=3.0, le=600.0)
    """Without a renewal for this long the replicator counts as gone, and a standby takes over."""
    refresh_topics_interval_seconds: PositiveFloat = 10.0
    """How often new topics and partitions are looked for."""
    replication_factor: int | None = None
    """Absent: as on the source; −1: the target brokers' default."""
    sync_topic_configs: bool = True
    """Settings of existing topics follow the source; false: they are copied when a topic is created."""
    sync_topic_configs_interval_seconds: PositiveFloat = 60.0
    """How often settings are compared, changes followed and drift on the target repaired."""
    sync_topic_configs_delay_seconds: float = Field(86_400.0, ge=0)
    """A change on the source that lets the copy keep fewer records (shorter retention, compaction) waits for
    this time before it is followed. With 0 it does not wait."""
    config_properties_exclude: Patterns = DEFAULT_CONFIG_EXCLUDE
    """Settings of topics that are not followed: regular expressions for the whole name."""
    use_defaults_from: Literal["target", "source"] = "target"
    """What a source topic inherits: left to the target's brokers, or set as on the source."""

    sync_topic_acls: bool = True
    """ACLs of copied topics, of groups and transactional ids follow the source; WRITE only at a promotion."""
    sync_topic_acls_interval_seconds: PositiveFloat = 60.0
    """How often ACLs are compared."""
    guard_passive_topics: bool = False
    """On a target that is open without ACLs: let all clients read the copies, only drkit write them."""

    on_source_gap: Literal["continue", "stop"] = "continue"
    """Retention removed records before they were copied."""
    on_source_recreated: Literal["stop", "new_generation"] = "stop"
    """The source topic was deleted and created again: stop copying it, or append the new one."""
    on_source_deleted: Literal["keep", "mirror"] = "keep"
    """The source topic was deleted: keep the copy, or delete it too (only one that drkit copied, never after
    a promotion)."""
    on_target_deleted: Literal["stop", "new_generation"] = "stop"
    """The target topic was deleted: stop copying, or create it again and copy from the start."""
    on_target_not_empty: Literal["stop", "append"] = "stop"
    """A target topic holds records before its first copy, and no flow in the other direction accounts for
    them: leave the topic out, or append all of it after them."""

    fetch_max_bytes: PositiveInt = 8 * _MIB
    """Largest answer to one fetch request."""
    fetch_partition_max_bytes: PositiveInt = 2 * _MIB
    """Largest part of one partition in such an answer."""
    fetch_max_wait_ms: PositiveInt = 500
    """How long the source may wait for records before it answers."""
    produce_request_bytes: PositiveInt = _MIB
    """About the largest produce request."""
    produce_in_flight: PositiveInt = 5
    """Produce requests in flight at once."""
    merge_below_bytes: int = Field(16 * _KIB, ge=0)
    """Batches smaller than this are joined; 0 joins none."""
    merge_up_to_bytes: PositiveInt = 256 * _KIB
    """How large joined batches become."""
    bulk_commit_seconds: PositiveFloat = 2.0
    """Longest time between two transactions while catching up."""
    bulk_commit_bytes: PositiveInt = 32 * _MIB
    """Most bytes in one transaction while catching up."""
    throttle_bytes_per_second: PositiveInt | None = None
    """Upper limit of what the flow fetches from its source; absent: no limit."""
    source_consumer: ConsumerProperties = Field(default_factory=dict)
    """Kafka's consumer properties for copy tasks' connections to the source; they win over the cluster's."""
    source_admin: AdminProperties = Field(default_factory=dict)
    """Kafka's admin properties for all else on the source."""
    target_producer: ProducerProperties = Field(default_factory=dict)
    """Kafka's producer properties for copy tasks' connections to the target."""
    target_admin: AdminProperties = Field(default_factory=dict)
    """Kafka's admin properties for all else on the target."""
    checkpoint_interval_seconds: PositiveFloat = 5.0
    """How often group offsets are translated; both clusters are asked for them."""
    emit_checkpoints: bool = True
    """Write checkpoints as MirrorMaker 2 does, into ``<source>.checkpoints.internal`` on the target."""
    checkpoints_topic_replication_factor: int = 3
    """Replicas of that topic, or as many as there are brokers; −1: the brokers' default."""
    emit_offset_syncs: bool = True
    """Write offset syncs as MirrorMaker 2 does, into ``mm2-offset-syncs.<alias>.internal``: for its readers,
    drkit has its own offset map."""
    offset_syncs_topic_location: Literal["source", "target"] = "target"
    """The cluster on which that topic is; the alias in its name is the other one's."""
    offset_syncs_topic_replication_factor: int = 3
    """Replicas of that topic, or as many as there are brokers; −1: the brokers' default."""
    offset_lag_max: int = Field(100, ge=0)
    """Most records between two syncs among the last records; older records have fewer syncs."""
    sync_group_offsets: bool = True
    """Consumer groups get their exact position on the target, unless they work there."""
    sync_group_offsets_interval_seconds: PositiveFloat = 5.0
    """How often positions are written on the target; not more often than checkpoints."""
    follow_group_commits: bool = True
    """Learn from the source's ``__consumer_offsets`` which groups have committed; false: every round asks for
    the offsets of all groups."""
    on_source_group_deleted: Literal["keep", "mirror"] = "keep"
    """A group was deleted on the source: keep what was written for it, or delete it too (only where no
    other client has committed for it)."""

    emit_heartbeats: bool = True
    """Write heartbeats into the source's topic ``heartbeats``: their age on the target is the delay of the
    whole path."""
    heartbeats_interval_seconds: PositiveFloat = 1.0
    """Time between two heartbeats."""
    heartbeats_topic_replication_factor: int = 3
    """Replicas of that topic, or as many as there are brokers; −1: the brokers' default."""
    heartbeats_replication: bool = True
    """Copy topics of heartbeats whatever ``topics`` says, as MirrorMaker 2 does."""

    open_transaction_seconds: PositiveFloat = 60.0
    """A transaction that is open for longer and holds records back is a fault. Longer than the longest
    transactions of the applications."""

    # Source and separator are defined above, so they are known here: a class is tried with both.
    @field_validator("naming")
    @classmethod
    def _usable_policy(cls, value: str, info: ValidationInfo) -> str:
        return checked(value, info.data.get("source"), info.data.get("separator"))

    @field_validator(
        "replication_factor",
        "checkpoints_topic_replication_factor",
        "offset_syncs_topic_replication_factor",
        "heartbeats_topic_replication_factor",
    )
    @classmethod
    def _some_replicas(cls, value: int | None) -> int | None:
        if value is not None and value < 1 and value != _BROKER_DEFAULT:
            raise PydanticCustomError("replicas", "must be at least 1, or -1 for the brokers' default", {})
        return value

    @model_validator(mode="after")
    def _two_clusters(self) -> Self:
        if self.source == self.target:
            what = {"alias": self.source, TO_DO: "name another cluster in one of them"}
            raise PydanticCustomError("same", "source and target are both '{alias}'", what)
        # Hops are found by splitting names: one hidden in `us-west` would let a topic loop and grow.
        if self.naming == "prefix" and self.separator in self.source + self.target:
            said = "the separator '{separator}' occurs in an alias of {flow}"
            what = {"separator": self.separator, "flow": self.name}
            raise PydanticCustomError("separator", said, what | {TO_DO: "set another separator, or alias"})
        return self

    @property
    def aliases(self) -> FlowAliases:
        """Source and target."""
        return FlowAliases(self.source, self.target)

    @property
    def name(self) -> str:
        """``source->target``, as on the command line."""
        return self.aliases.name

    def has_opposite_in(self, flows: Iterable[FlowSettings]) -> bool:
        """Whether one of some flows copies in the other direction between the same clusters."""
        return any((f.source, f.target) == (self.target, self.source) for f in flows)

    @property
    def naming_policy(self) -> Naming:
        """The policy for the names of topics on the target."""
        if is_own_class(self.naming):
            return own_naming(self.naming, self.source, self.separator)
        return (PrefixNaming if self.naming == "prefix" else IdentityNaming)(self.source, self.separator)

    @property
    def mm2_topics(self) -> Mm2Topics:
        """The names of MirrorMaker 2's own topics under the same settings."""
        return Mm2Topics.of(self.separator, enabled=self.internal_topic_separator)

    @property
    def topic_filter(self) -> NameFilter:
        """The user's choice of source topics; :meth:`copies` also excludes topics that are never copied."""
        return NameFilter(self.topics, self.topics_exclude)

    @property
    def config_rules(self) -> ConfigRules:
        """The rules for copying settings of topics."""
        return ConfigRules(
            self.config_properties_exclude, self.use_defaults_from, sync=self.sync_topic_configs
        )

    @property
    def group_filter(self) -> NameFilter:
        """The user's choice of consumer groups, without those that the flow never carries."""
        return NameFilter(self.groups, (*self.groups_exclude, *excluded_groups(self.source)))

    def acl_scope(self, topics: Iterable[str]) -> AclScope:
        """Which ACLs concern this flow.

        :param topics: names on the source; those that it does not copy are left out
        """
        known = frozenset(t for t in topics if self.copies(t))
        return AclScope(self.naming_policy, self.copies, known, self.group_filter, self.topics)

    def is_heartbeats(self, topic: str) -> bool:
        """Whether a topic of the source holds heartbeats: its own or those of upstream clusters."""
        return is_heartbeats(topic, self.separator)

    def copies(self, topic: str) -> bool:
        """Whether this flow copies a topic of its source: chosen, not internal, and no loop."""
        is_beat = self.heartbeats_replication and self.is_heartbeats(topic)
        return (
            (is_beat or self.topic_filter.accepts(topic))
            and may_copy(topic, self.source, self.mm2_topics)
            and not self.naming_policy.comes_from(topic, self.target)
        )

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        roles = {role: masked(getattr(self, role)) for role in ROLES}
        return [(name, roles.get(name or "", value)) for name, value in super().__repr_args__()]
