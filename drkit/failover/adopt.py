"""`drkit control adopt`: sign what a pair of clusters wrote without a control key, or with an older one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.control_key import NO_MAC, ControlKeys, Signatures, SignedTopic, is_current
from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, ConfigError, DrkitError, Failed, Refused, Usage, raise_first
from drkit.flow_state.creation import kept_tombstones
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.names import ADOPTED, BEGUN, Adoptions, done_at, name_of, sole_transactional_id
from drkit.flow_state.records import ControlKeyRecord, kind_of
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Delivery, KafkaException, Producer, deliver
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.reading.signed_log import SignedLog, log_producer
from drkit.kafka.topics import alter_topic_configs, describe_topics
from drkit.model import TopicPartition
from drkit.offset_map import bucket
from drkit.offset_map.bucket import adopted_at
from drkit.wire import Record

LOGS: Final = frozenset({SignedTopic.JOURNAL, SignedTopic.FENCES})
"""Topics in which later records do not replace earlier ones."""

_NOTES: Final = frozenset({"pause", "automatic"})
"""Notes that are valid until a person withdraws them; the others are published repeatedly."""
Written = tuple[int, bytes | None, bytes | None]
"""Partition, key and value of a record to sign."""


class AdoptDecisions(NamedTuple):
    """What a person decides about records whose key has no record with a valid MAC."""

    all_signed: bool = False
    sign: Collection[str] = ()
    """Keys, and names of logs, to sign all the same."""
    discard: Collection[str] = ()
    """Keys to delete, and names of logs whose entries without a valid MAC are dropped."""

    def signs(self, name: str) -> bool:
        """Return whether records of a key, or entries of a log, are to be signed."""
        return self.all_signed or name in self.sign


NOTHING_DECIDED: Final = AdoptDecisions()
SIGN_ALL: Final = AdoptDecisions(all_signed=True)


class Sign(StrEnum):
    """The signature of a record."""

    CURRENT = "signed"
    PREVIOUS = "signed with an older key or version"
    NONE = "without a MAC"
    WRONG = "with a wrong MAC"
    """Also a copy of an earlier record: its readers pass it over."""


class ReadRecord(NamedTuple):
    """A record from one of drkit's topics."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    sign: Sign


@dataclass
class TopicRecords:
    """All records of one of drkit's topics."""

    name: str
    where: str
    """Alias of its cluster."""
    kind: SignedTopic
    records: list[ReadRecord] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """End offset of each partition when the topic was read."""
    signatures: dict[int, Signatures] = field(default_factory=dict)
    """What verified each partition, and signs what is written after its records."""
    hidden: int | None = None
    """First offset of a transaction that was open, or None."""
    passed_over: str = ""
    """Why readers pass over a batch, which may have replaced any record, or empty."""
    unreachable: str = ""
    """The reason why it was not read (its cluster, the source, does not answer), or empty if it was."""

    def counts(self) -> dict[str, int]:
        """Return the number of records by sign."""
        return {sign.value: n for sign in Sign if (n := sum(r.sign is sign for r in self.records))}

    def is_needed(self, record: ReadRecord) -> bool:
        """Return whether drkit will read such a record."""
        if self.kind is SignedTopic.STATE:
            return kind_of(name_in(record)) is not None
        if self.kind is SignedTopic.MAP:
            return record.key != bucket.ADOPTED
        return self.kind is not SignedTopic.NOTES or name_in(record) in _NOTES

    def newest(self, decided: AdoptDecisions) -> list[ReadRecord]:
        """Return the valid record of every key, in the order of the offsets.

        A record with a valid MAC wins over later ones without. Of a key without any MAC, the newest record is
        returned if it is to be signed.
        """
        newest_of: dict[tuple[int, bytes | None], ReadRecord] = {}
        for record in filter(self.is_needed, self.records):
            slot = record.partition, record.key
            before = newest_of.get(slot)
            is_open = before is None or not is_valid(before)
            if is_valid(record) or (is_open and decided.signs(name_in(record))):
                newest_of[slot] = record
        return sorted(newest_of.values(), key=lambda r: (r.partition, r.offset))

    def foreign(self) -> list[ReadRecord]:
        """Return the newest record of every key that has no record with a valid MAC."""
        return [r for r in self.newest(SIGN_ALL) if not is_valid(r)]

    def entries(self) -> list[ReadRecord]:
        """Return the entries of a log since the last adoption that ended; earlier ones do not count."""
        ended = self.adoptions().ended
        return [r for r in self.records if r.offset > ended and r.key != ADOPTED]

    def undecided(self) -> list[ReadRecord]:
        """Return the entries of a log that have no valid MAC, and are no copies of entries with one."""
        entries = self.entries()
        genuine = {(r.key, r.value) for r in entries if is_valid(r)}
        return [r for r in entries if (r.key, r.value) not in genuine]

    def is_cut(self) -> bool:
        """Return whether an adoption ended before it had signed all entries without a valid MAC."""
        unsigned = [r for r in self.entries() if not is_valid(r)]
        return self.adoptions().begun is not None and 0 < len(self.undecided()) < len(unsigned)

    def adoptions(self) -> Adoptions:
        """Return the adoptions in a log."""
        adoptions = Adoptions()
        for mark in (r for r in self.records if r.key == ADOPTED and is_valid(r)):
            adoptions.take(mark.offset, mark.value)
        return adoptions

    def is_signed(self) -> bool:
        """Return whether the newest needed record of every key has a MAC of the current control key."""
        last = {(r.partition, r.key): r.sign for r in filter(self.is_needed, self.records)}
        return all(sign is Sign.CURRENT for sign in last.values())

    def names(self) -> set[str]:
        """Return the names by which a person decides about records without a valid MAC."""
        if self.kind in LOGS:
            return {self.name} if self.undecided() else set()
        return set() if self.kind is SignedTopic.MAP else set(map(name_in, self.foreign()))


def name_in(record: ReadRecord) -> str:
    """Return the key of a record as text."""
    return (record.key or b"").decode(errors="backslashreplace")


def is_valid(record: ReadRecord) -> bool:
    """Return whether a record has the MAC of an accepted control key."""
    return record.sign in {Sign.CURRENT, Sign.PREVIOUS}


def log_entries(topic: TopicRecords, decided: AdoptDecisions) -> list[Written] | None:
    """Return the entries of a log to sign, each once and in order, or None if the log stays as it is.

    Where entries have no valid MAC, the log is not signed until a person decides about them.
    """
    is_adopted = decided.signs(topic.name)
    undecided, entries = topic.undecided(), topic.entries()
    valid = [r for r in entries if is_valid(r)]
    if undecided and not (is_adopted or topic.name in decided.discard):
        return None
    if not undecided and topic.adoptions().begun is None and all(r.sign is Sign.CURRENT for r in valid):
        return None
    return list(dict.fromkeys((0, r.key, r.value) for r in (entries if is_adopted else valid)))


def refuse_running(flow: FlowSettings, topics: Iterable[TopicRecords]) -> None:
    """Refuse while the flow runs: the records that were read would replace newer ones.

    :raises Refused: a replicator runs
    """
    state = FlowState()
    for record in (r for t in topics if t.kind is SignedTopic.STATE for r in t.newest(SIGN_ALL)):
        state.take(record.key or b"", record.value)
    replicator = replicator_of(state, wall_ms())
    if replicator is not None and replicator.alive:
        raise Refused(
            "adopt_flow_running",
            where=f"flow {flow.name}: host {replicator.host}, process {replicator.process}",
            evidence=f"it renewed its lease {replicator.age_seconds:.1f} s ago",
        )


def refuse_unknown(topics: Iterable[TopicRecords], decided: AdoptDecisions) -> None:
    """Refuse a name of which no record lacks a valid MAC. Raises Usage."""
    names = {name for topic in topics for name in topic.names()}
    if unknown := sorted({*decided.sign, *decided.discard} - names):
        known = first_of(sorted(names), 20) or "nothing"
        raise Usage("adopt_name_unknown", where=unknown[0], known=known)


def refuse_loss(topics: Iterable[TopicRecords]) -> None:
    """Refuse to delete records without a MAC that may be drkit's own.

    :raises Refused: no record of the flow's state has a valid MAC, or an adoption that signed records without
        one did not end
    """
    for topic in topics:
        is_unsigned = topic.kind is SignedTopic.STATE and not any(map(is_valid, topic.records))
        if is_unsigned or (topic.kind in LOGS and topic.is_cut()):
            evidence = ", ".join(f"{n} {sign}" for sign, n in topic.counts().items()) or "no records"
            raise Refused("adopt_nothing_signed", where=f"{topic.name} on {topic.where}", evidence=evidence)


def refuse_change(topic: TopicRecords, ends: Mapping[int, int]) -> None:
    """Refuse to sign a topic that has changed: the records that were read would replace newer ones.

    :param ends: of the topic's partitions at another time
    :raises Refused: they differ from those at the time of the read
    """
    if topic.ends != ends:
        then, now = sorted((topic.ends, dict(ends)), key=lambda each: sum(each.values()))
        evidence = f"it ended at {then or 'none'}, now at {now or 'none'}"
        raise Refused("adopt_state_changing", where=f"{topic.name} on {topic.where}", evidence=evidence)


_SECONDS: Final = 120.0
_READ_SECONDS: Final = 60.0
_WITH_TOMBSTONES: Final = frozenset(SignedTopic) - LOGS - {SignedTopic.MAP}


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
        """Return whether an adoption was done before: then records without a MAC were written by others."""
        marker = ControlKeyRecord.key().encode()
        state = [t for t in self.topics if t.kind is SignedTopic.STATE]
        known = any(r.key == marker or is_valid(r) for t in state for r in t.records)
        return known or any(t.passed_over for t in state)  # such a batch may have replaced the marker

    @property
    def lacks_mac(self) -> bool:
        """Return whether a record that drkit needs has no valid MAC."""
        logs = any(log_entries(t, SIGN_ALL) is not None for t in self.topics if t.kind in LOGS)
        return logs or any(t.passed_over or t.foreign() for t in self.topics if t.kind not in LOGS)

    def to_json(self) -> list[dict[str, object]]:
        """Return the topics as plain data, for the decision."""
        return [
            {"cluster": t.where, "topic": t.name, "unreachable": t.unreachable}
            if t.unreachable
            else {"cluster": t.where, "topic": t.name, **t.counts(), "not signed": _shown(t)}
            for t in self.topics
        ]


def _shown(topic: TopicRecords) -> str:
    if topic.passed_over:
        return f"unknown: {topic.passed_over}"
    if topic.kind in LOGS | {SignedTopic.MAP}:
        return str(len(topic.undecided() if topic.kind in LOGS else topic.foreign()))
    return first_of([name_in(r)[:80] for r in topic.foreign()], 20) or "none"


def look(settings: Settings, flow: FlowSettings, *, to_sign: bool = False) -> FlowRecords:
    """Return the records of all topics of a flow.

    :param to_sign: end transactions of an adoption that was killed: they hide records until they time out
    :raises ConfigError: there is no control key
    :raises DrkitError: a cluster does not answer
    """
    keys = settings.control.keys
    if keys is None:
        raise ConfigError("no_control_key", where="control.key_file is not set")
    records = FlowRecords(flow, keys, [], {})
    source, target = settings.sides(flow)
    for kind in SignedTopic:
        here = [source if kind is SignedTopic.FENCES else target]
        if kind is SignedTopic.NOTES and (third := settings.watch.third) is not None:
            here.append(settings.cluster(third))
        for cluster in here:
            topic = TopicRecords(name_of(kind, flow.source, flow.target), cluster.alias, kind)
            records.topics.append(topic)
            try:
                records.clusters[cluster.alias] = Cluster.connect(cluster)
                _read(topic, records.clusters[cluster.alias], keys)
                if to_sign and topic.hidden is not None and kind not in LOGS:
                    _open_producer(topic, records)
                    _read(topic, records.clusters[cluster.alias], keys)
            except ClusterUnreachable as error:
                if cluster is not source:
                    raise
                topic.unreachable = error.evidence  # after a failover the source may never come back
    return records


def sign_all(found: FlowRecords, decided: AdoptDecisions = NOTHING_DECIDED) -> dict[str, int]:
    """Sign the valid records with the current control key; return the number of records by topic.

    :raises Refused: another process has written to a topic since it was read
    :raises DrkitError: a transaction is open on a topic, or a topic refuses the records
    """
    written: dict[str, int] = {}
    # The state topic has the marker, so it is last: everything else is signed by then.
    for topic in sorted(found.topics, key=lambda t: t.kind is SignedTopic.STATE):
        if topic.unreachable:
            continue
        cluster = found.clusters[topic.where]
        if not describe_topics(cluster, [topic.name]):
            continue
        before, where = topic.ends, f"{topic.name} on {topic.where}"
        _read(topic, cluster, found.keys)
        if topic.hidden is not None:
            evidence = f"a transaction is open since offset {topic.hidden}"
            raise Failed("own_topic_hidden", where=where, evidence=evidence, alias=topic.where)
        if topic.kind is not SignedTopic.NOTES:  # observers may continue
            refuse_change(topic, before)
        changes = {topic.name: kept_tombstones(cluster.settings)} if topic.kind in _WITH_TOMBSTONES else {}
        raise_first(alter_topic_configs(cluster, changes))
        records = _to_write(topic, found, decided)
        if records:
            _write(topic, found, records)
        if records and topic.kind in LOGS:  # only now it counts
            with closing(SignedLog(cluster.settings, topic.name, lambda _record, _why: None)) as log:
                log.append((ADOPTED, done_at(before[0])))
            _read(topic, cluster, found.keys)
            if [(0, r.key, r.value) for r in topic.entries()] != records[1:]:
                evidence = f"what was written from offset {before[0]} on is not all that counts"
                raise Refused("adopt_state_changing", where=where, evidence=evidence)
        written[where] = len(records)
    return written


def _to_write(topic: TopicRecords, found: FlowRecords, decided: AdoptDecisions) -> list[Written]:
    if topic.kind in LOGS:
        entries = log_entries(topic, decided)
        return [] if entries is None else [(0, ADOPTED, BEGUN), *entries]
    records = [(r.partition, r.key, r.value) for r in topic.newest(decided)]
    records = [] if topic.is_signed() else records
    if topic.kind is SignedTopic.MAP:
        # Earlier records may have a valid MAC too: the marks prevent reading them twice.
        marks = [(p, *adopted_at(topic.ends[p])) for p in sorted({r[0] for r in records})]
        records = [*marks, *records]
    discarded = topic.names() & {*decided.discard}  # the map has no names
    records += [(r.partition, r.key, None) for r in topic.foreign() if name_in(r) in discarded]
    marker = ControlKeyRecord(wall_ms(), found.keys.current.fingerprint)
    is_marked = any(r.key == marker.key().encode() for r in topic.records)
    if topic.kind is SignedTopic.STATE and (decided.all_signed or not is_marked):
        records.append((0, marker.key().encode(), marker.encode()))
    return records


def _read(topic: TopicRecords, cluster: Cluster, keys: ControlKeys) -> None:
    """Read a topic from its first record to its end. Raises DrkitError."""
    topic.records, topic.ends, topic.signatures, topic.hidden, topic.passed_over = [], {}, {}, None, ""
    described = describe_topics(cluster, [topic.name]).get(topic.name)
    with closing(EventLoop()) as loop, closing(RawCluster(loop, cluster.settings, "adopt")) as raw:
        for partition in described.leaders if described is not None else ():
            at = TopicPartition(topic.name, partition)
            signed = topic.signatures[partition] = Signatures(keys, at)
            take, in_order = partial(_take, topic, keys, partition), topic.kind is SignedTopic.MAP
            note = partial(_pass_over, topic)
            ends = LogTail(raw, at, take, note, signatures=signed, in_order=in_order).read(_READ_SECONDS)
            topic.ends[partition] = ends.replicated
            if ends.decided < ends.replicated and topic.hidden is None:
                topic.hidden = ends.decided


def _pass_over(topic: TopicRecords, offset: int, why: str) -> None:
    topic.passed_over = topic.passed_over or f"offset {offset}: {why}"


def _take(topic: TopicRecords, keys: ControlKeys, partition: int, record: Record) -> None:
    """Add the next record of a partition. One that its readers pass over is not valid."""
    key, value, headers = record.key, record.value, record.headers
    if why := topic.signatures[partition].refused(key, value, headers, record.timestamp):
        sign = Sign.NONE if why == NO_MAC else Sign.WRONG
    else:
        sign = Sign.CURRENT if is_current(keys, headers) else Sign.PREVIOUS
    topic.records.append(ReadRecord(partition, record.offset, key, value, sign))


def _open_producer(topic: TopicRecords, found: FlowRecords) -> Producer:
    """Return a producer for a topic. Outside of logs it writes transactions, and aborts an earlier open one.

    :raises Failed: the cluster refuses
    """
    config: dict[str, str | int] = {"message.timeout.ms": int(_SECONDS * 1000)}
    if topic.kind not in LOGS:
        config["transactional.id"] = sole_transactional_id(found.flow.source, found.flow.target, "adopt")
        config["transaction.timeout.ms"] = int(_SECONDS * 1000)
    producer = log_producer(found.clusters[topic.where].settings, config)
    if topic.kind not in LOGS:
        try:
            producer.init_transactions(_SECONDS)
        except KafkaException as error:
            raise _failed(topic, error.args[0].str()) from error
    return producer


def _failed(topic: TopicRecords, evidence: str) -> Failed:
    return Failed("signing_failed", where=f"{topic.name} on {topic.where}", evidence=evidence)


def _write(topic: TopicRecords, found: FlowRecords, records: Iterable[Written]) -> None:
    """Sign and write records in order.

    :raises Refused: another process wrote to the topic after it was read
    :raises Failed: the records were not accepted
    """
    producer, is_whole = _open_producer(topic, found), topic.kind not in LOGS
    try:
        if is_whole:
            producer.begin_transaction()
        signed = ((p, k, v, topic.signatures[p].text_headers(k, v)) for p, k, v in records)
        delivery = deliver(producer, topic.name, signed, _SECONDS)
        if delivery.evidence:
            raise _failed(topic, delivery.evidence)
        _refuse_between(topic, found.clusters[topic.where], found.keys, delivery)
        if is_whole:
            producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        raise _failed(topic, error.args[0].str()) from error
    except DrkitError:
        if is_whole:
            with suppress(KafkaException):
                producer.abort_transaction(_SECONDS)
        raise


def _refuse_between(topic: TopicRecords, cluster: Cluster, keys: ControlKeys, delivery: Delivery) -> None:
    """Refuse if another process wrote to the topic after the read; of notes, one that is signed.

    :raises Refused: another process wrote
    """
    if topic.kind is SignedTopic.NOTES:  # observers may continue
        ends, before = topic.ends, topic.newest(SIGN_ALL)
        _read(topic, cluster, keys)
        if topic.newest(SIGN_ALL) != before:
            refuse_change(topic, ends)
    else:
        refuse_change(topic, topic.ends | delivery.first)
