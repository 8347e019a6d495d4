"""Signs the records that a pair of clusters wrote without a control key, or with an older one (decision 24).

The newest record of every key, and every entry of the journal, is written again with a MAC of the current
control key, in the order of the offsets. Records without a MAC are not trusted afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.control_key import NO_MAC, ControlKeys, LogPlace, read_mac
from drkit.errors import ConfigError
from drkit.failover.adopt.records import (
    ReadRecord,
    Sign,
    TopicKind,
    TopicRecords,
    journal_entries,
    only_foreign,
)
from drkit.failover.adopt.refusals import refuse_change
from drkit.failover.adopt.writing import Written, write
from drkit.failover.journal.topic import BEGUN, DONE
from drkit.flow_state.creation import kept_tombstones
from drkit.flow_state.names import (
    ADOPTED,
    journal_topic,
    offset_map_topic,
    state_topic,
    watch_topic,
)
from drkit.flow_state.records import ControlKeyRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import OFFSET_BEGINNING, Message
from drkit.kafka.reading.headers import headers_of
from drkit.kafka.reading.log_reader import read_partitions
from drkit.kafka.topics import alter_topic_configs, describe_topics, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.bucket import adopted_at

_SHOWN: Final = 20


@dataclass
class FlowRecords:
    """All topics of a flow."""

    flow: FlowSettings
    keys: ControlKeys
    topics: list[TopicRecords]
    clusters: dict[str, Cluster]
    """Clusters by alias."""

    @property
    def adopted(self) -> bool:
        """Whether an adoption was done before: then records without a MAC were written by others."""
        marker = ControlKeyRecord.key().encode()
        state = [t for t in self.topics if t.kind is TopicKind.STATE]
        return any(r.key == marker for t in state for r in t.records)

    @property
    def lacks_mac(self) -> bool:
        """Whether some key that drkit needs has no record with a valid MAC."""
        if any(journal_entries(t, unsigned=True) for t in self.topics if t.kind is TopicKind.JOURNAL):
            return True
        return any(t.foreign() for t in self.topics if t.kind is not TopicKind.JOURNAL)

    def to_json(self) -> list[dict[str, object]]:
        """Return the topics as plain data, for the decision."""
        return [
            {"cluster": t.where, "topic": t.name, **t.counts(), "not signed": _shown(t)} for t in self.topics
        ]


def _shown(topic: TopicRecords) -> str:
    if topic.kind in {TopicKind.JOURNAL, TopicKind.MAP}:
        return str(len(topic.foreign()))
    keys = [(r.key or b"").decode(errors="backslashreplace")[:80] for r in topic.foreign()]
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return (", ".join(keys[:_SHOWN]) + more) or "none"


def look(settings: Settings, flow: FlowSettings) -> FlowRecords:
    """Return the records of all topics of a flow.

    :raises ConfigError: there is no control key
    :raises DrkitError: a cluster does not answer
    """
    keys = settings.control.keys
    if keys is None:
        raise ConfigError("no_control_key", where="control.key_file is not set")
    target, watch = Cluster.connect(settings.sides(flow)[1]), watch_topic(flow.source, flow.target)
    clusters = {flow.target: target}
    wanted = [
        TopicRecords(state_topic(flow.source), flow.target, TopicKind.STATE),
        TopicRecords(offset_map_topic(flow.source), flow.target, TopicKind.MAP),
        TopicRecords(journal_topic(flow.source), flow.target, TopicKind.JOURNAL),
        TopicRecords(watch, flow.target, TopicKind.NOTES),
    ]
    if (third := settings.watch.third) is not None:
        clusters[third] = Cluster.connect(settings.cluster(third))
        wanted.append(TopicRecords(watch, third, TopicKind.NOTES))
    for topic in wanted:
        _read(topic, clusters[topic.where], keys)
    return FlowRecords(flow, keys, wanted, clusters)


def sign_all(found: FlowRecords, *, unsigned: bool, discard: bool = False) -> dict[str, int]:
    """Sign the valid records with the current control key; return the number of records by topic.

    :param unsigned: adopt records without a MAC if their key has no record with one
    :param discard: delete such records instead
    :raises Refused: another process has written to a topic since it was read
    :raises DrkitError: a topic refuses the records
    """
    written: dict[str, int] = {}
    # The state topic has the marker, so it is last: everything else is signed by then.
    for topic in sorted(found.topics, key=lambda t: t.kind is TopicKind.STATE):
        cluster = found.clusters[topic.where]
        if not describe_topics(cluster, [topic.name]):
            continue
        if topic.kind is TopicKind.NOTES:
            # Observers may continue, so the notes are read again with those written since.
            topic.records.clear()
            _read(topic, cluster, found.keys)
        else:
            refuse_change(topic, _ends(topic, cluster))
        _keep_tombstones(topic, cluster)
        records = _to_write(topic, found, unsigned=unsigned, discard=discard)
        if records:
            write(topic, cluster, found.flow, found.keys, records)
        written[f"{topic.name} on {topic.where}"] = len(records)
    return written


def _keep_tombstones(topic: TopicRecords, cluster: Cluster) -> None:
    """Keep tombstones, as in a new topic. Raises DrkitError."""
    if topic.kind in {TopicKind.STATE, TopicKind.NOTES}:
        changes = {topic.name: kept_tombstones(cluster.settings)}
        for error in alter_topic_configs(cluster, changes).values():
            raise error


def _to_write(topic: TopicRecords, found: FlowRecords, *, unsigned: bool, discard: bool) -> list[Written]:
    if topic.kind is TopicKind.JOURNAL:
        entries = [(0, r.key, r.value) for r in journal_entries(topic, unsigned=unsigned)]
        marked = entries or (discard and only_foreign(topic))
        return [(0, ADOPTED, BEGUN), *entries, (0, ADOPTED, DONE)] if marked else []
    records = [(r.partition, r.key, r.value) for r in topic.newest(unsigned=unsigned)]
    records = [] if topic.is_signed() else records
    if topic.kind is TopicKind.MAP:
        # Earlier records may have a valid MAC too: the marks prevent reading them twice.
        marks = [(p, *adopted_at(topic.ends[p])) for p in sorted({r[0] for r in records})]
        records = [*marks, *records]
    if discard:
        records += [(r.partition, r.key, None) for r in topic.foreign()]
    if topic.kind is TopicKind.STATE and (unsigned or not found.adopted):
        marker = ControlKeyRecord(wall_ms(), found.keys.current.fingerprint)
        records.append((0, marker.key().encode(), marker.encode()))
    return records


def _read(topic: TopicRecords, cluster: Cluster, keys: ControlKeys) -> None:
    """Read a topic from its first record to its end. Raises DrkitError."""
    topic.ends = _ends(topic, cluster)
    starts = {TopicPartition(topic.name, p): OFFSET_BEGINNING for p, end in topic.ends.items() if end}
    place = LogPlace(topic.name, cluster.cluster_id)
    read_partitions(
        cluster.settings, starts, lambda message: topic.records.append(_stored(place, keys, message))
    )


def _ends(topic: TopicRecords, cluster: Cluster) -> dict[int, int]:
    """Return end offsets by partition; empty: there is no such topic."""
    described = describe_topics(cluster, [topic.name]).get(topic.name)
    if described is None:
        return {}
    at = [TopicPartition(topic.name, p) for p in described.leaders]
    return {a.partition: e for a, e in list_offsets(cluster, at, "latest", committed=True).items()}


def _stored(place: LogPlace, keys: ControlKeys, message: Message) -> ReadRecord:
    key, value, headers = message.key(), message.value(), headers_of(message)
    found = read_mac(keys, place, key, value, headers)
    if isinstance(found, str):
        sign, order = (Sign.NONE if found == NO_MAC else Sign.WRONG), 0
    else:
        is_current = not isinstance(read_mac(ControlKeys(keys.current), place, key, value, headers), str)
        sign, order = (Sign.CURRENT if is_current else Sign.PREVIOUS), found or 0
    return ReadRecord(message.partition() or 0, message.offset() or 0, key, value, sign, order)
