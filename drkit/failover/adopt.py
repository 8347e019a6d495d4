"""`drkit control adopt`: signs what a pair of clusters wrote without a control key, or with an older one.

The newest record of every key, and every entry of the journal, is written again with a MAC of the current
control key, in the order of the offsets, in one transaction if the topic's reader allows it. Records without
a MAC are not trusted afterwards (decision 24). Needed records are never replaced or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.control_key import NO_MAC, ControlKeys, LogPlace, Signatures, read_mac
from drkit.errors import ConfigError, Failed, Refused
from drkit.failover.journal.topic import BEGUN, DONE
from drkit.flow_state.creation import kept_tombstones
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.names import (
    ADOPTED,
    adopting_transactional_id,
    journal_topic,
    offset_map_topic,
    state_topic,
    watch_topic,
)
from drkit.flow_state.records import ControlKeyRecord, kind_of
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import (
    OFFSET_BEGINNING,
    QUIET,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    confluent_config,
)
from drkit.kafka.reading.headers import headers_of
from drkit.kafka.reading.log_reader import read_partitions
from drkit.kafka.topics import alter_topic_configs, describe_topics, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map import bucket
from drkit.offset_map.bucket import adopted_at

_NOTES: Final = frozenset({"pause", "automatic"})
"""Notes that are valid until a person withdraws them; the others are published repeatedly."""


class Sign(StrEnum):
    """The signature of a record."""

    CURRENT = "signed"
    PREVIOUS = "signed with an older key"
    NONE = "without a MAC"
    WRONG = "with a wrong MAC"


class ReadRecord(NamedTuple):
    """A record from one of drkit's topics."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    sign: Sign
    order: int = 0
    """The order in its MAC, or 0 for a MAC without one."""


class TopicKind(StrEnum):
    """The purpose of a topic; it decides which of its records are kept."""

    STATE = "state"
    MAP = "offset map"
    NOTES = "notes of observers"
    JOURNAL = "failover journal"


@dataclass
class TopicRecords:
    """All records of one of drkit's topics."""

    name: str
    where: str
    kind: TopicKind
    records: list[ReadRecord] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """End offset of each partition when the topic was read."""

    def counts(self) -> dict[str, int]:
        """Return the number of records by sign."""
        return {sign.value: n for sign in Sign if (n := sum(r.sign is sign for r in self.records))}

    def is_needed(self, record: ReadRecord) -> bool:
        """Whether drkit will read such a record."""
        key = (record.key or b"").decode(errors="replace")
        if self.kind is TopicKind.STATE:
            return kind_of(key) is not None
        if self.kind is TopicKind.MAP:
            return record.key != bucket.ADOPTED
        return self.kind is not TopicKind.NOTES or key in _NOTES

    def newest(self, *, unsigned: bool) -> list[ReadRecord]:
        """Return the valid record of every key, in the order of the offsets.

        A record with a MAC wins over later ones without, and over copies of earlier records.

        :param unsigned: for a key without any MAC, use the newest record
        """
        found: dict[tuple[int, bytes | None], ReadRecord] = {}
        for record in filter(self.is_needed, self.records):
            at = record.partition, record.key
            before = found.get(at)
            if is_valid(record):
                wins = before is None or record.order >= before.order  # lower in a copy
            else:
                wins = unsigned and (before is None or not is_valid(before))
            if wins:
                found[at] = record
        return sorted(found.values(), key=lambda r: (r.partition, r.offset))

    def foreign(self) -> list[ReadRecord]:
        """Return the newest record of every key that has no record with a valid MAC."""
        return [r for r in self.newest(unsigned=True) if not is_valid(r)]

    def is_signed(self) -> bool:
        """Whether the newest needed record of every key has a MAC of the current control key."""
        last: dict[tuple[int, bytes | None], ReadRecord] = {}
        for record in filter(self.is_needed, self.records):
            before = last.get((record.partition, record.key))
            if before is None or not is_valid(record) or record.order >= before.order:
                last[record.partition, record.key] = record
        return all(r.sign is Sign.CURRENT for r in last.values())


def is_valid(record: ReadRecord) -> bool:
    """Whether a record has the MAC of an accepted control key."""
    return record.sign in {Sign.CURRENT, Sign.PREVIOUS}


def journal_entries(topic: TopicRecords, *, unsigned: bool) -> list[ReadRecord]:
    """Return the journal entries to sign, in order; empty when all valid ones have the current key.

    Later records do not replace entries of a journal. Entries without a MAC are adopted only the first time,
    before the journal has entries with a MAC or the marks of an adoption.
    """
    marks = [r for r in topic.records if r.key == ADOPTED and is_valid(r)]
    unfinished = bool(marks) and marks[-1].value == BEGUN
    entries = [r for r in topic.records if r.key != ADOPTED]
    valid = [r for r in entries if is_valid(r)]
    if unsigned and (unfinished or not (valid or marks)):
        return entries
    return valid if unfinished or any(r.sign is not Sign.CURRENT for r in valid) else []


def only_foreign(topic: TopicRecords) -> bool:
    """Whether a journal has records, but none with a valid MAC: its reader refuses such a journal."""
    return bool(topic.records) and not any(map(is_valid, topic.records))


def refuse_running(flow: FlowSettings, topics: Iterable[TopicRecords]) -> None:
    """Refuse while the flow runs: what was read would replace newer records. Raises Refused."""
    state = FlowState()
    for record in (r for t in topics if t.kind is TopicKind.STATE for r in t.newest(unsigned=True)):
        state.take(record.key or b"", record.value)
    replicator = replicator_of(state, wall_ms())
    if replicator is not None and replicator.alive:
        raise Refused(
            "adopt_flow_running",
            where=f"flow {flow.name}: host {replicator.host}, process {replicator.process}",
            evidence=f"it renewed its lease {replicator.age_seconds:.1f} s ago",
        )


def refuse_loss(topics: Iterable[TopicRecords]) -> None:
    """Refuse to delete records without a MAC if no record of the state has one. Raises Refused."""
    state = [t for t in topics if t.kind is TopicKind.STATE]
    if not any(is_valid(r) for t in state for r in t.records):
        raise Refused(
            "adopt_nothing_signed",
            where=", ".join(f"{t.name} on {t.where}" for t in state),
            evidence=", ".join(f"{n} {sign}" for t in state for sign, n in t.counts().items())
            or "no records",
        )


def refuse_change(topic: TopicRecords, ends: Mapping[int, int]) -> None:
    """Refuse to sign a topic whose end offsets differ from those at its read. Raises Refused."""
    if topic.ends != ends:
        raise Refused(
            "adopt_state_changing",
            where=f"{topic.name} on {topic.where}",
            evidence=f"it ended at {topic.ends or 'none'}, now at {dict(ends) or 'none'}",
        )


_SECONDS: Final = 120.0
Written = tuple[int, bytes | None, bytes | None]
"""Partition, key and value of a record to sign."""


@dataclass
class Delivered:
    """The delivery results of the brokers."""

    failed: list[KafkaError] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)

    def take(self, error: KafkaError | None, message: Message) -> None:
        """Add the result of one record."""
        if error is not None:
            self.failed.append(error)
        else:
            self.first.setdefault(message.partition() or 0, message.offset() or 0)


def write(
    topic: TopicRecords, cluster: Cluster, flow: FlowSettings, keys: ControlKeys, records: Iterable[Written]
) -> None:
    """Sign and write records in order. Raises Refused: others wrote since the read; Failed: not accepted."""
    config: dict[str, str | int | bool] = {
        **confluent_config(cluster.settings),
        "enable.idempotence": True,
        "allow.auto.create.topics": False,
        "log_level": 0,
    }
    if is_whole := topic.kind is not TopicKind.JOURNAL:
        config["transactional.id"] = adopting_transactional_id(flow.source, flow.target)
        config["transaction.timeout.ms"] = int(_SECONDS * 1000)
    producer, told = Producer(config, logger=QUIET), Delivered()
    newest = max((r.order for r in topic.records), default=0)
    signatures = Signatures(keys, topic.name, lambda: cluster.cluster_id, newest=newest)
    try:
        if is_whole:
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
        for partition, key, value in records:
            headers = signatures.text_headers(key, value)
            produce = partial(producer.produce, partition=partition, headers=headers, on_delivery=told.take)
            _patiently(producer, partial(produce, topic.name, value, key))
        if producer.flush(_SECONDS):
            told.failed.append(KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001  the constant's only name
        if is_whole and not told.failed:
            _commit(topic, told, producer)
    except KafkaException as error:
        told.failed.append(error.args[0])
    if told.failed:
        raise Failed("signing_failed", where=f"{topic.name} on {topic.where}", evidence=told.failed[0].str())


def _patiently(producer: Producer, produce: Callable[[], None]) -> None:
    while True:
        try:
            produce()
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _commit(topic: TopicRecords, told: Delivered, producer: Producer) -> None:
    try:
        if topic.kind is not TopicKind.NOTES:  # others may write notes after the read
            refuse_change(topic, topic.ends | told.first)
    except Refused:
        producer.abort_transaction(_SECONDS)
        raise
    producer.commit_transaction(_SECONDS)


_SHOWN: Final = 20


@dataclass
class FlowRecords:
    """All topics of a flow."""

    flow: FlowSettings
    keys: ControlKeys
    topics: list[TopicRecords]
    clusters: dict[str, Cluster]

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
    """Read all topics of a flow. Raises ConfigError: no control key; DrkitError: no answer."""
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
        if topic.kind in {TopicKind.STATE, TopicKind.NOTES}:  # as in a new topic
            for error in alter_topic_configs(
                cluster, {topic.name: kept_tombstones(cluster.settings)}
            ).values():
                raise error
        records = _to_write(topic, found, unsigned=unsigned, discard=discard)
        if records:
            write(topic, cluster, found.flow, found.keys, records)
        written[f"{topic.name} on {topic.where}"] = len(records)
    return written


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
    topic.ends = _ends(topic, cluster)
    starts = {TopicPartition(topic.name, p): OFFSET_BEGINNING for p, end in topic.ends.items() if end}
    place = LogPlace(topic.name, cluster.cluster_id)
    read_partitions(
        cluster.settings, starts, lambda message: topic.records.append(_stored(place, keys, message))
    )


def _ends(topic: TopicRecords, cluster: Cluster) -> dict[int, int]:
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
