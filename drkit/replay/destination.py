"""Decides by the flow's state where a tail's records go on the new primary, or why they may not go there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drkit.clock import wall_ms
from drkit.errors import Refused, raise_first
from drkit.flow_state.names import quarantine_topic
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
from drkit.kafka.topics import (
    ConfigValue,
    create_partitions,
    describe_topics,
    ensure_own_topic,
    list_offsets,
    topic_configs,
    topic_names,
)
from drkit.model import TopicPartition
from drkit.replay.log import ReplayLog
from drkit.replay.progress import QuarantineRecord, ReplayBook
from drkit.replay.side import MISSING
from drkit.replay.tail import Export, Tail
from drkit.status.pair.delta import DELETE_RETENTION_MS, RETENTION_MS, may_lack_tombstones
from drkit.topology.topic_configs import PASSIVE

_QUARANTINE: Final = "keep the records in quarantine: drkit replay --from MANIFEST --to-quarantine"
CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
BEFORE: Final = "message.timestamp.before.max.ms"
AFTER: Final = "message.timestamp.after.max.ms"
_ANY_AGE: Final = (1 << 63) - 1
_DEFAULT_AFTER: Final = "3600000"
_DEFAULT_BYTES: Final = 1_048_588
Configs = Mapping[str, ConfigValue]
_HEADER_ROOM: Final = 4096
"""Bytes that drkit's header may add to a record that just fitted its topic."""
_LONGEST_NAME: Final = 249
_SETTINGS: Final = {**PASSIVE, CLEANUP_POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records keep their times, whatever they are, and stay."""


class Destination(NamedTuple):
    """A partition of the new primary that gets records of a tail."""

    at: TopicPartition
    topic_id: UUID
    cut: int | None = None
    """First offset that clients wrote since the failover, or None if there is nothing to compare with."""
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
    """The age at which the topic's own settings let records be removed, or None if unlimited or unknown."""


class Promoted(NamedTuple):
    """The topic on the new primary that a tail's topic is on the old one."""

    topic: TopicMetadata
    role: RoleRecord
    configs: Configs
    held: HeldSettingsRecord | None = None
    """The settings with which an operator holds records on the new primary."""

    @property
    def compacted(self) -> bool:
        """True if the cleaner removes older values."""
        return "compact" in setting(self.configs, CLEANUP_POLICY, "delete")

    @property
    def retention_ms(self) -> int | None:
        """The age at which records may be removed without a hold, or None if unlimited or unknown."""
        values = {name: config.value for name, config in self.configs.items()}
        if "delete" not in setting(self.configs, CLEANUP_POLICY, "delete"):
            return None
        is_held = self.held is not None and self.held.holds(values)
        age = self.held.before.get(RETENTION_MS) if is_held and self.held else values.get(RETENTION_MS)
        return None if age is None or int(age) < 0 else int(age)

    @property
    def max_bytes(self) -> int:
        """The largest batch that it takes."""
        return int(setting(self.configs, MAX_MESSAGE_BYTES, str(_DEFAULT_BYTES)))


def setting(configs: Configs, key: str, default: str) -> str:
    """Return the value of a topic's setting."""
    config = configs.get(key)
    return default if config is None or config.value is None else config.value


def promoted_topics(cluster: Cluster, export: Export, state: FlowState) -> dict[str, Promoted]:
    """Return topic of the export → promoted topic. Raises Refused if the cluster is not their new primary."""
    _refuse_other_clusters(cluster, export, state)
    known, roles, held = state.all(GenerationRecord), state.all(RoleRecord), state.all(HeldSettingsRecord)
    promotions: dict[str, tuple[GenerationRecord, RoleRecord]] = {}
    for tail in export.tails:
        name = tail.source.topic
        generation, role = known.get(name), roles.get(name)
        if generation is None or generation.source_id != tail.topic_id:
            evidence = f"exported: {tail.topic_id}, copied: {generation and generation.source_id}"
            raise Refused("replay_other_topic", where=f"{name} of {export.flow}", evidence=evidence)
        where = f"{generation.target} on {cluster.alias}"
        if role is None or not role.is_promoted:
            evidence = f"its role is {role.role if role else 'passive'}"
            raise Refused("replay_other_primary", where=where, evidence=evidence)
        evidence = f"it is of term {tail.term}, the topic was promoted in term {role.term}"
        if role.term > tail.term:
            raise Refused("replay_earlier_failover", where=where, evidence=evidence)
        if role.term != tail.term and export.cluster_id in formerly(state):
            evidence += f"; {export.cluster_id} is not the source any more"
            raise Refused("replay_other_failover", where=where, evidence=evidence)
        promotions[name] = generation, role
    targets = [generation.target for generation, _ in promotions.values()]
    topics, configs = describe_topics(cluster, targets), topic_configs(cluster, targets)
    return {
        name: Promoted(_find(cluster, topics, generation), role, configs[generation.target], held.get(name))
        for name, (generation, role) in promotions.items()
    }


class TopicCopy(NamedTuple):
    """A topic of the export as the new primary has it, in whatever state."""

    name: str
    partitions: int
    """0: it is gone."""
    max_bytes: int


def copied_topics(cluster: Cluster, export: Export, state: FlowState) -> dict[str, TopicCopy]:
    """Return topic of the export → its copy, even if gone or passive. Raises as :func:`promoted_topics`."""
    _refuse_other_clusters(cluster, export, state)
    known = state.all(GenerationRecord)
    names = {t.source.topic: known[t.source.topic].target if t.source.topic in known else t.source.topic
             for t in export.tails}  # fmt: skip
    topics, configs = describe_topics(cluster, names.values()), topic_configs(cluster, names.values())
    copies = {}
    for source, name in names.items():
        limit = setting(configs.get(name, {}), MAX_MESSAGE_BYTES, str(_DEFAULT_BYTES))
        number = len(topics[name].leaders) if name in topics else 0
        copies[source] = TopicCopy(name, number, max(int(limit), _DEFAULT_BYTES))
    return copies


def formerly(state: FlowState) -> frozenset[str]:
    """Return the ids of clusters that were the flow's source before the current one. Pure.

    An export of such a cluster's records is of this flow: only the cluster is gone.
    """
    known, former = state.get(ClustersRecord), state.get(FormerSourcesRecord)
    ids = former.ids if former is not None else ()
    return frozenset(ids) - {known.source if known is not None else ""}


def _refuse_other_clusters(cluster: Cluster, export: Export, state: FlowState) -> None:
    known = state.get(ClustersRecord)
    if known is not None and known.target != cluster.cluster_id:
        evidence = f"its id is {cluster.cluster_id}, that of the flow's target {known.target}"
        raise Refused("replay_other_target", where=cluster.alias, evidence=evidence)
    if known is None or export.cluster_id not in {known.source, *formerly(state)}:
        raise Refused(
            "replay_other_source",
            where=f"export {export.run_id} of {export.flow}",
            evidence=f"its id is {export.cluster_id}, that of the source {known and known.source}",
        )


def _find(
    cluster: Cluster, topics: Mapping[str, TopicMetadata], generation: GenerationRecord
) -> TopicMetadata:
    topic = topics.get(generation.target)
    if topic is None or topic.topic_id != generation.target_id:
        raise Refused(
            "replay_topic_recreated",
            where=f"{generation.target} on {cluster.alias}",
            evidence=f"it had the id {generation.target_id}, now {topic.topic_id if topic else 'none'}",
        )
    return topic


def destination_of(tail: Tail, to: Promoted, alias: str) -> Destination:
    """Return the destination of a tail's records: the partition of the same number.

    :raises Refused: no such partition there, or the comparison would be wrong
    """
    at = TopicPartition(to.topic.name, tail.source.partition)
    where = f"{at} on {alias}"
    if at.partition not in to.topic.leaders:
        evidence = f"{len(to.topic.leaders)} partitions, records are of partition {at.partition}"
        raise Refused("replay_fewer_partitions", where=where, evidence=evidence)
    # A partition that is younger than the failover has nothing but what clients wrote since.
    cut = (to.role.ends or {at.partition: None}).get(at.partition, 0)
    if cut is None:
        evidence = f"run {to.role.run_id} has recorded no end of the copy"
        raise Refused("replay_start_unrecorded", where=where, evidence=evidence)
    if to.compacted:
        _refuse_lost_tombstones(to, where, wall_ms())
    own_times = setting(to.configs, _TIMESTAMP_TYPE, "") == "LogAppendTime"
    destination = Destination(at, to.topic.topic_id, cut, to.compacted, to.max_bytes, own_times)
    if own_times:
        return destination
    before, after = setting(to.configs, BEFORE, str(_ANY_AGE)), setting(to.configs, AFTER, _DEFAULT_AFTER)
    return destination._replace(before_ms=int(before), after_ms=int(after), retention_ms=to.retention_ms)


def _refuse_lost_tombstones(to: Promoted, where: str, now: int) -> None:
    """Refuse a compacted topic in which the cleaner may have removed that a client has deleted a key."""
    values = {name: config.value for name, config in to.configs.items()}
    if may_lack_tombstones(values, to.role.at_ms, now, to.held):
        delete_retention = setting(to.configs, DELETE_RETENTION_MS, "unknown")
        raise Refused(
            "deleted_keys_return",
            where=where,
            evidence=f"the topic keeps deletions for {delete_retention} ms,"
            f" the failover was {now - to.role.at_ms:,} ms ago",
            hint=_QUARANTINE,
        )


class Quarantine:
    """The quarantine of one export; `topics` maps its topics to their copies on the new primary."""

    def __init__(self, log: ReplayLog, export: Export, topics: Mapping[str, TopicCopy]) -> None:
        self._log, self._export, self._topics = log, export, topics
        self._alias = log.cluster.alias

    def names(self) -> dict[str, str]:
        """Return topic of the export → its topic in quarantine. Raises Refused if a name is too long."""
        terms = {tail.source.topic: tail.term for tail in self._export.tails}
        names = {n: quarantine_topic(p.name, terms[n]) for n, p in self._topics.items()}
        for name in names.values():
            if len(name) > _LONGEST_NAME:
                evidence = f"{name} has {len(name)} characters, Kafka takes {_LONGEST_NAME}"
                raise Refused("quarantine_name_long", where=self._alias, evidence=evidence)
        return names

    def look(self, book: ReplayBook) -> dict[str, TopicMetadata]:
        """Return the topics in quarantine that are drkit's and may get these records, by name.

        A topic of another run counts, too: if the old primary lost a tail in parts, each part may be in
        another export. Records that are there already are known by their header.

        :raises Refused: a topic of such a name is not drkit's, or Kafka takes no topic of this name
        :raises DrkitError: the new primary does not answer
        """
        names = self.names()
        existing = describe_topics(self._log.cluster, names.values())
        for name, topic in existing.items():
            known = book.quarantines.get(name)
            if known is None or not self._is_own(known, topic):
                raise self._not_own(name, known)
        self._refuse_alike(set(names.values()) - existing.keys())
        return existing

    def _not_own(self, name: str, known: QuarantineRecord | None) -> Refused:
        owner = "no run of drkit" if known is None else f"run {known.run_id}"
        evidence = f"on record for it: {owner}; this is run {self._export.run_id}"
        return Refused("quarantine_topic_foreign", where=f"{name} on {self._alias}", evidence=evidence)

    def _refuse_alike(self, missing: Collection[str]) -> None:
        """Refuse names that Kafka refuses: its metrics would take them for those of another topic."""
        by_metric = {name.replace(".", "_"): name for name in missing}
        for other in topic_names(self._log.cluster) if by_metric else ():
            if name := by_metric.get(other.replace(".", "_")):
                raise Refused(
                    "quarantine_name_clash", where=f"{name} on {self._alias}", evidence=f"{other} is there"
                )

    def _is_own(self, known: QuarantineRecord, topic: TopicMetadata) -> bool:
        """Return whether a topic is the one on record; one that was about to be created is still empty."""
        if known.topic_id is not None:
            return known.topic_id == topic.topic_id
        partitions = [TopicPartition(topic.name, number) for number in topic.leaders]
        return not any(list_offsets(self._log.cluster, partitions, "latest").values())

    def create(
        self, name: str, source: str, known: QuarantineRecord | None,
        put: Callable[[QuarantineRecord], None],
    ) -> TopicMetadata:  # fmt: skip
        """Create a topic in quarantine where it is missing, as after its owner has deleted it.

        :param source: the export's topic
        :param known: what is on record for it
        :param put: puts on record what is about to be created, then its id
        :raises Refused: a topic of this name is there since, and is not drkit's
        :raises DrkitError: it cannot be created
        """
        there = describe_topics(self._log.cluster, [name]).get(name)
        if there is not None and (known is None or not self._is_own(known, there)):
            raise self._not_own(name, known)
        if there is None:
            known = QuarantineRecord(self._export.run_id, name)
            put(known)
        like = self._topics[source]
        most = 1 + max(t.source.partition for t in self._export.tails if t.source.topic == source)
        configs = {**_SETTINGS, MAX_MESSAGE_BYTES: str(like.max_bytes + _HEADER_ROOM)}
        topic = ensure_own_topic(self._log.cluster, name, configs, max(like.partitions, most))
        if len(topic.leaders) < most:  # an earlier export was of fewer
            raise_first(create_partitions(self._log.cluster, {name: most}))
        if known is not None and known.topic_id is None:
            put(QuarantineRecord(known.run_id, name, topic.topic_id))
        return topic

    def destinations(self, there: Mapping[str, TopicMetadata]) -> dict[TopicPartition, Destination]:
        """Return partition of the old primary → destination; a topic that is missing has the id 0.

        :param there: the topics that this run has created, by name
        :raises DrkitError: the new primary does not answer
        """
        names, configs = self.names(), topic_configs(self._log.cluster, there)
        destinations = {}
        for source in (tail.source for tail in self._export.tails):
            name = names[source.topic]
            if (topic := there.get(name)) is not None:
                topic_id, limit = topic.topic_id, int(setting(configs[name], MAX_MESSAGE_BYTES, "0"))
            else:
                topic_id, limit = MISSING, self._topics[source.topic].max_bytes + _HEADER_ROOM
            quarantine = TopicPartition(name, source.partition)
            destinations[source] = Destination(quarantine, topic_id, max_bytes=limit)
        return destinations
