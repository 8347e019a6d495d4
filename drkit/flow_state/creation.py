"""Create the topics of a flow on the target, and repair their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Failed, Refused
from drkit.flow_state.names import journal_topic, offset_map_topic, state_topic
from drkit.flow_state.records import ClustersRecord, ConfigurationRecord, FormerSourcesRecord, OffsetMapRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import describe_topics, ensure_own_topic

_CONFIGS: Final = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
_STATE_SEGMENT: Final = {"segment.bytes": str(16 << 20), "max.message.bytes": str(16 << 20)}
_MAP_SEGMENT: Final = {"segment.bytes": str(1 << 20), "compression.type": "uncompressed"}
"""Kafka never compacts the segment that it appends to, by default up to a gigabyte or a week. A start, or a
command, would read all notes of the source's ends since, and in each bucket of the map all marks. By default
it refuses a note of about 70,000 partitions: compressed it is larger than a megabyte. Brokers store the
map unpacked, as it is written: no small batch unpacks to a large one at its readers."""
KEPT_MS: Final = str(100 * 365 * 86_400_000)


def ensure_state_topic(target: Cluster, flow: FlowSettings) -> None:
    """Create the state topic of a flow where it is missing. Raises DrkitError when that is not possible."""
    ensure_compacted(target, state_topic(flow.source))


def note_clusters(state: StateTopic, clusters: ClustersRecord) -> None:
    """Record between which clusters a flow runs; a source whose place another one took stays on record.

    :param state: loaded
    :raises DrkitError: the state cannot be written
    """
    known = state.get(ClustersRecord)
    if known is not None and known.source != clusters.source:
        # First: whoever is killed in between has lost nothing.
        state.put(FormerSourcesRecord.after(state.get(FormerSourcesRecord), known.source))
    if known != clusters:
        state.put(clusters)


def note_configuration(state: StateTopic, flow: FlowSettings, parts: Mapping[str, str]) -> None:
    """Record the configuration of a flow's replicator, which holds the lease; report what is not as before.

    :param state: loaded
    :param parts: fingerprints of its parts
    :raises DrkitError: the state cannot be written
    """
    known, own = state.get(ConfigurationRecord), ConfigurationRecord(parts)
    if known is not None and (changed := known.differences(parts)):
        observe.event("configuration_changed", level="warning", flow=flow.name, parts=list(changed))
    if known != own:
        state.put(own)


def refuse_renamed(state: FlowState, flow: FlowSettings) -> None:
    """Refuse a file that gives a flow's target another alias than the file of its last replicator.

    The alias is in the transactional ids by which a failover, or another replicator, fences that one.

    :raises Refused: it does
    """
    known = state.readable(ConfigurationRecord).get("")
    named = known.parts.get("target", flow.target) if known is not None else flow.target
    if named != flow.target:
        evidence = f"the last replicator's file calls it {named}, this file {flow.target}"
        raise Refused("target_renamed", where=f"flow {flow.name}", evidence=evidence, named=named)


def ensure_offset_map(target: Cluster, flow: FlowSettings, state: StateTopic) -> None:
    """Create the offset map of a flow when there never was one, and remember its id.

    :param state: loaded
    :raises Refused: the map is not the one by which topics were copied: copying would start again after
        the existing records
    :raises Failed: it has another number of buckets
    """
    name = offset_map_topic(flow.source)
    known = state.get(OffsetMapRecord)
    found = describe_topics(target, [name]).get(name)
    if known is not None and (found is None or found.topic_id != known.topic_id):
        evidence = f"it had the id {known.topic_id}, now {found.topic_id if found else 'it is missing'}"
        hint = to_copy_again(target, flow, name, state.name)
        raise Refused("map_deleted", where=f"{name} on {target.alias}", evidence=evidence, hint=hint)
    found = ensure_own_topic(target, name, _CONFIGS, flow.buckets, optional=_MAP_SEGMENT, described=found)
    if len(found.leaders) != flow.buckets:
        raise Failed(
            "map_buckets_differ",
            where=f"{name} on {target.alias}",
            evidence=f"{len(found.leaders)} partitions, buckets = {flow.buckets}",
            count=len(found.leaders),
            flow=flow.name,
        )
    if known is None:
        state.put(OffsetMapRecord(found.topic_id))


def to_copy_again(target: Cluster, flow: FlowSettings, *topics: str) -> str:
    """Return the hint that lets a flow copy from the start; after a failover the copies may be the only ones.

    :param topics: of drkit's own, which are to be deleted with the copies
    """
    journal = journal_topic(flow.source)
    if journal in describe_topics(target, [journal]):
        return f"delete nothing: by {journal} the copies may be the only ones: drkit status"
    if not topics:
        return "delete the copy on the target to copy it from the start"
    return f"to copy from the start, delete the copied topics, {' and '.join(topics)} on the target"


def ensure_compacted(target: Cluster, name: str) -> TopicMetadata:
    """Create another compacted topic of drkit's own where it is missing. Raises DrkitError."""
    configs = {**_CONFIGS, **kept_tombstones(target.settings)}
    return ensure_own_topic(target, name, configs, optional=_STATE_SEGMENT)


def kept_tombstones(cluster: ClusterSettings) -> dict[str, str]:
    """With a control key tombstones stay: one without a MAC must not erase a record and leave no trace."""
    return {} if cluster.control is None else {"delete.retention.ms": KEPT_MS}


_TRIES: Final = 5
"""Attempts to be the last writer of a key; other processes write a key less often."""


def restore(state: StateTopic, key: str) -> bool:
    """Write the newest readable record under a key again; returns whether there was something to repair.

    A key without any earlier record is deleted. A record that another drkit process writes meanwhile is newer
    than the one known here: if this write came after it, that record is written again.

    :raises DrkitError: the topic cannot be read, or does not take it
    """
    since = state.followed[key] = []
    try:
        state.load()
        records, value = state.records, state.records.value(key)
        if key not in (records.forged if value is None else records.unreadable):
            return False
        for _ in range(_TRIES):
            since.clear()
            state.write(key, value)
            state.load()
            others = [v for v in since if v != value]
            if not others or since[-1] != value:
                break
            value = others[-1]
    finally:
        del state.followed[key]
    return True
