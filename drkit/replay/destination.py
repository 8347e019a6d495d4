"""Decides by the flow's state where a tail's records go on the new primary, or why they may not go there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drkit.clock import Millis, wall_ms
from drkit.errors import Refused
from drkit.flow_state.records import (
    ClustersRecord,
    FormerSourcesRecord,
    GenerationRecord,
    HeldSettingsRecord,
    RoleRecord,
)
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import ConfigValue, describe_topics, topic_configs
from drkit.model import TopicPartition
from drkit.replay.tail import Export, Tail
from drkit.status.pair.delta import DELETE_RETENTION_MS, RETENTION_MS, may_lack_tombstones

_QUARANTINE: Final = "keep the records in quarantine: drkit replay --from MANIFEST --to-quarantine"
CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
BEFORE: Final = "message.timestamp.before.max.ms"
AFTER: Final = "message.timestamp.after.max.ms"
_ANY_AGE: Final = (1 << 63) - 1
_DEFAULT_AFTER: Final = 3_600_000
_DEFAULT_BYTES: Final = 1_048_588
Configs = Mapping[str, ConfigValue]


class Destination(NamedTuple):
    """A partition of the new primary that gets records of a tail."""

    at: TopicPartition
    topic_id: UUID
    cut: int | None = None
    """First offset that clients wrote since the failover; None: there is nothing to compare with."""
    compacted: bool = False
    max_bytes: int = _DEFAULT_BYTES
    """The largest batch that the topic takes."""
    own_times: bool = False
    """The topic gives every record the time of its arrival: the original time is lost."""
    before_ms: int = _ANY_AGE
    """How much older than now a record may be."""
    after_ms: int = _ANY_AGE
    """How much later than now a record may be."""
    retention_ms: int | None = None
    """The age at which the topic's own settings let records be removed; None: at none, or it is unknown."""


class Promoted(NamedTuple):
    """The topic on the new primary that a tail's topic is on the old one."""

    topic: TopicMetadata
    role: RoleRecord
    configs: Configs
    held: HeldSettingsRecord | None = None
    """What a person has the new primary keep."""

    @property
    def compacted(self) -> bool:
        """Whether the cleaner removes older values."""
        return "compact" in setting(self.configs, CLEANUP_POLICY, "delete")

    @property
    def retention_ms(self) -> int | None:
        """The age at which records may be removed, without a hold; None: at none, or it is unknown."""
        values = {name: config.value for name, config in self.configs.items()}
        if "delete" not in setting(self.configs, CLEANUP_POLICY, "delete"):
            return None
        is_held = self.held is not None and self.held.holds(values)
        found = self.held.before.get(RETENTION_MS) if is_held and self.held else values.get(RETENTION_MS)
        return None if found is None or int(found) < 0 else int(found)

    @property
    def max_bytes(self) -> int:
        """The largest batch that it takes."""
        return int(setting(self.configs, MAX_MESSAGE_BYTES, str(_DEFAULT_BYTES)))


def setting(configs: Configs, key: str, default: str) -> str:
    """The value of a topic's setting."""
    found = configs.get(key)
    return default if found is None or found.value is None else found.value


def promoted_topics(cluster: Cluster, export: Export, state: FlowState) -> dict[str, Promoted]:
    """Topic of the export → the topic on the new primary.

    :param state: of the flow, as the new primary has it
    :raises Refused: the new primary is not the one for these records
    :raises DrkitError: it does not answer
    """
    _refuse_other_clusters(cluster, export, state)
    known, roles, held = state.all(GenerationRecord), state.all(RoleRecord), state.all(HeldSettingsRecord)
    wanted: dict[str, tuple[GenerationRecord, RoleRecord]] = {}
    for tail in export.tails:
        name = tail.source.topic
        generation, role = known.get(name), roles.get(name)
        where = f"{name} of {export.flow}"
        if generation is None or generation.source_id != tail.topic_id:
            raise Refused(
                "replay_other_topic",
                where=where,
                evidence=f"exported: {tail.topic_id}, copied: {generation and generation.source_id}",
            )
        if role is None or not role.is_promoted:
            raise Refused(
                "replay_other_primary",
                where=f"{generation.target} on {cluster.alias}",
                evidence=f"its role is {role.role if role else 'passive'}",
            )
        if role.term > tail.term:
            raise Refused(
                "replay_earlier_failover",
                where=f"{generation.target} on {cluster.alias}",
                evidence=f"it is of term {tail.term}, the topic was promoted in term {role.term}",
            )
        if role.term != tail.term and export.cluster_id in formerly(state):
            raise Refused(
                "replay_other_failover",
                where=f"{generation.target} on {cluster.alias}",
                evidence=f"it is of term {tail.term}, the topic was promoted in term {role.term};"
                f" {export.cluster_id} is not the source any more",
            )
        wanted[name] = generation, role
    targets = [generation.target for generation, _ in wanted.values()]
    topics, configs = describe_topics(cluster, targets), topic_configs(cluster, targets)
    return {
        name: Promoted(_same(cluster, topics, generation), role, configs[generation.target], held.get(name))
        for name, (generation, role) in wanted.items()
    }


class TopicCopy(NamedTuple):
    """A topic of the export as the new primary has it, in whatever state."""

    name: str
    partitions: int
    """0: it is gone."""
    max_bytes: int


def copied_topics(cluster: Cluster, export: Export, state: FlowState) -> dict[str, TopicCopy]:
    """Topic of the export → the topic on the new primary, which may be gone or passive.

    :param state: of the flow, as the new primary has it
    :raises Refused: the new primary is not the one for these records
    :raises DrkitError: it does not answer
    """
    _refuse_other_clusters(cluster, export, state)
    known = state.all(GenerationRecord)
    names = {t.source.topic: known[t.source.topic].target if t.source.topic in known else t.source.topic
             for t in export.tails}  # fmt: skip
    topics, configs = describe_topics(cluster, names.values()), topic_configs(cluster, names.values())
    found = {}
    for source, name in names.items():
        limit = setting(configs.get(name, {}), MAX_MESSAGE_BYTES, str(_DEFAULT_BYTES))
        number = len(topics[name].leaders) if name in topics else 0
        found[source] = TopicCopy(name, number, max(int(limit), _DEFAULT_BYTES))
    return found


def formerly(state: FlowState) -> frozenset[str]:
    """The ids of clusters that were the flow's source until another one took their place. Pure.

    An export of such a cluster's records is of this flow: only the cluster is gone.
    """
    known, former = state.get(ClustersRecord), state.get(FormerSourcesRecord)
    ids = former.ids if former is not None else ()
    return frozenset(ids) - {known.source if known is not None else ""}


def _refuse_other_clusters(cluster: Cluster, export: Export, state: FlowState) -> None:
    known = state.get(ClustersRecord)
    if known is not None and known.target != cluster.cluster_id:
        raise Refused(
            "replay_other_target",
            where=cluster.alias,
            evidence=f"its id is {cluster.cluster_id}, that of the flow's target {known.target}",
        )
    if known is None or export.cluster_id not in {known.source, *formerly(state)}:
        raise Refused(
            "replay_other_source",
            where=f"export {export.run_id} of {export.flow}",
            evidence=f"its id is {export.cluster_id}, that of the source {known and known.source}",
        )


def _same(
    cluster: Cluster, topics: Mapping[str, TopicMetadata], generation: GenerationRecord
) -> TopicMetadata:
    found = topics.get(generation.target)
    if found is None or found.topic_id != generation.target_id:
        raise Refused(
            "replay_topic_recreated",
            where=f"{generation.target} on {cluster.alias}",
            evidence=f"it had the id {generation.target_id}, now {found.topic_id if found else 'none'}",
        )
    return found


def destination_of(tail: Tail, to: Promoted, alias: str, wall: Millis = wall_ms) -> Destination:
    """Where a tail's records go, with the partition of the same number.

    :raises Refused: no such partition there, or the comparison would be wrong
    """
    at = TopicPartition(to.topic.name, tail.source.partition)
    if at.partition not in to.topic.leaders:
        raise Refused(
            "replay_fewer_partitions",
            where=f"{at} on {alias}",
            evidence=f"{len(to.topic.leaders)} partitions, records are of partition {at.partition}",
        )
    # A partition that is younger than the failover has nothing but what clients wrote since.
    cut = (to.role.ends or {at.partition: None}).get(at.partition, 0)
    if cut is None:
        raise Refused(
            "replay_start_unrecorded",
            where=f"{at} on {alias}",
            evidence=f"run {to.role.run_id} has recorded no end of the copy",
        )
    if to.compacted:
        _refuse_lost_tombstones(to, at, alias, wall())
    own_times = setting(to.configs, _TIMESTAMP_TYPE, "") == "LogAppendTime"
    found = Destination(at, to.topic.topic_id, cut, to.compacted, to.max_bytes, own_times)
    if own_times:
        return found
    before, after = (
        setting(to.configs, BEFORE, str(_ANY_AGE)),
        setting(to.configs, AFTER, str(_DEFAULT_AFTER)),
    )
    return found._replace(before_ms=int(before), after_ms=int(after), retention_ms=to.retention_ms)


def _refuse_lost_tombstones(to: Promoted, at: TopicPartition, alias: str, now: int) -> None:
    """Refuse a compacted topic in which the cleaner may have removed that a client has deleted a key."""
    values = {name: config.value for name, config in to.configs.items()}
    if may_lack_tombstones(values, to.role.at_ms, now, to.held):
        kept = setting(to.configs, DELETE_RETENTION_MS, "unknown")
        raise Refused(
            "deleted_keys_return",
            where=f"{at} on {alias}",
            evidence=f"the topic keeps deletions for {kept} ms,"
            f" the failover was {now - to.role.at_ms:,} ms ago",
            hint=_QUARANTINE,
        )
