"""Take over a flow from MirrorMaker 2: find where it stopped, and begin the copy there.

MM2's stored offset shows what is certainly copied; records that it copied later are found by content (see
:mod:`drkit.offsets.alignment`). The result is written into the offset map before the first task starts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
import json
from typing import Final, NamedTuple
from uuid import UUID

from drkit import observe
from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.errors import Refused
from drkit.flow_state.copied_topics import CopiedPartition, known_of
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import TakenOverPartition, TakeoverRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import TIMESTAMP_LOG_APPEND_TIME, Message
from drkit.kafka.groups.requests import group_members
from drkit.kafka.raw import ask_once, connections
from drkit.kafka.reading.log_tail import LogTail
from drkit.kafka.reading.range_reader import RangeReader, all_headers
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.beginning import begin_partitions
from drkit.offset_map.bucket import parts
from drkit.offset_map.reading import load
from drkit.offset_map.topic import bucket_of, new_nonce
from drkit.offsets import History, Intent, MapRecord, PartitionMap, SegmentMap
from drkit.offsets.alignment import Aligned, Fingerprints, NotAligned, align, fingerprint
from drkit.offsets.map_record import Mode
from drkit.offsets.segments import UNKNOWN
from drkit.topic_sync.rules import CopiedTopic, TopicSyncResult
from drkit.wire import Record

_LEAVES_SECONDS: Final = 15.0
"""A killed worker is a member until its session ends: 10 s by default (Connect's session.timeout.ms)."""
_PAUSE_SECONDS: Final = 0.5
_READ_SECONDS: Final = 30.0
SETTING: Final = "takeover_from_mm2"


def offsets_topic(source: str) -> str:
    """Return the name of the topic on the target in which MM2 keeps its source offsets (dedicated mode)."""
    return f"mm2-offsets.{source}.internal"


def parse(key: bytes | None, value: bytes | None) -> tuple[str, TopicPartition, int | None] | None:
    """Read a record of MM2's offsets: cluster, source partition, last copied offset (None after a reset).

    Returns None for a record that is not progress of a MirrorSourceConnector. The order of keys within its
    key is not fixed.
    """
    try:
        _, partition = json.loads(key or b"null")
        tp = TopicPartition(str(partition["topic"]), int(partition["partition"]))
        return str(partition["cluster"]), tp, None if value is None else int(json.loads(value)["offset"])
    except (ValueError, TypeError, KeyError):
        return None


def stored_offsets(target: Cluster, flow: FlowSettings) -> dict[TopicPartition, int] | None:
    """Return the last offset that MM2 has certainly copied, by source partition; None without the topic.

    :raises Failed: the topic cannot be read
    """
    name = offsets_topic(flow.source)
    topic = describe_topics(target, [name]).get(name)
    if topic is None:
        return None
    newest: dict[TopicPartition, tuple[int, int | None]] = {}

    def take(record: Record) -> None:
        progress, when = parse(record.key, record.value), record.timestamp
        if progress is None or progress[0] != flow.source:
            return
        # With its JSON keys in another order, the same partition is in another partition of this topic.
        if progress[1] not in newest or newest[progress[1]][0] <= when:
            newest[progress[1]] = (when, progress[2])

    with connections("takeover", target.settings) as (raw,):
        for p in topic.leaders:
            LogTail(raw, TopicPartition(name, p), take).read(_READ_SECONDS)
    return {tp: offset for tp, (_, offset) in newest.items() if offset is not None}


def refuse_living(
    target: Cluster,
    flow: FlowSettings,
    pause: Callable[[float], bool],
    patience_seconds: float = _LEAVES_SECONDS,
) -> None:
    """Refuse while a worker of MM2 for this flow is a member of its group on the target.

    :param pause: waits some seconds; returns True to give up
    :raises Refused: a worker is still a member after that time
    :raises DrkitError: the group's coordinator does not answer, or refuses
    """
    group = f"{flow.source}-mm2"
    deadline = monotonic() + patience_seconds
    while members := group_members(target.settings, [group])[group]:
        if monotonic() > deadline:
            evidence = f"{counted(len(members), 'member')}, at {', '.join(sorted({m.host for m in members}))}"
            where = f"group {group} on {target.alias}"
            raise Refused("mm2_running", where=where, evidence=evidence, flow=flow.name)
        if pause(_PAUSE_SECONDS):
            return


CONTEXT: Final = 10_000
"""Offsets before the stored one that are compared too, so that group offsets there are exact at once."""
_BEYOND: Final = 10_000
"""Number of records after a possible alignment that are searched for another one."""
_MOST: Final = 10_000_000
"""Maximum number of records that are read from the source, 16 bytes of memory each."""

Side = tuple[Cluster, TopicPartition]


class Compared(NamedTuple):
    """The end of MM2's copy of a partition."""

    place: Aligned
    whole: bool
    """All records on the target were found on the source."""
    committed: bool
    """MM2 left out records of aborted transactions; by default it does not (isolation.level)."""

    @property
    def agreed(self) -> int:
        """Return the number of records that both sides have up to the alignment."""
        return sum(n for _, _, n in self.place.segments)


class _TargetEnd(NamedTuple):
    """The end of the target's log."""

    records: Fingerprints
    from_start: bool
    broker_times: bool
    """Timestamps are the target brokers' own, so they are not compared."""


def compare(source: Side, target: Side, bounds: tuple[int, int], stored: int | None) -> Compared | NotAligned:
    """Find the source offset up to which a partition was copied.

    :param bounds: the target's first offset and its last stable offset
    :param stored: the last source offset that MM2 has certainly copied, or None
    :raises DrkitError: a cluster does not answer
    """
    answer = _compare(source, target, bounds, stored, committed=True)
    if isinstance(answer, Compared) and answer.whole:
        return answer
    other = _compare(source, target, bounds, stored, committed=False)
    if isinstance(other, Compared) and (isinstance(answer, NotAligned) or other.agreed > answer.agreed):
        return other
    return answer


def _compare(
    source: Side, target: Side, bounds: tuple[int, int], stored: int | None, *, committed: bool
) -> Compared | NotAligned:
    last = _read_target(target, bounds, CONTEXT)
    begin = list_offsets(source[0], [source[1]], "earliest")[source[1]]
    begin = begin if stored is None else max(begin, stored + 1 - CONTEXT)
    read = _read_source(source, begin, stored, last, committed=committed)
    floor = -1 if stored is None else stored
    behind = sum(1 for offset in read.offsets if offset > floor)
    if behind > len(last.records) and not last.from_start:
        # Markers of transactions take offsets too: at most one for every record.
        last = _read_target(target, bounds, 2 * behind + CONTEXT)
    answer = align(read, last.records, stored)
    if isinstance(answer, NotAligned):
        return answer
    compared = Compared(answer, whole=False, committed=committed)
    return compared._replace(whole=last.from_start and compared.agreed == len(last.records))


def _read_target(target: Side, bounds: tuple[int, int], offsets: int) -> _TargetEnd:
    start, end = bounds
    begin = max(start, end - offsets)
    with_times, without, broker_times = Fingerprints(), Fingerprints(), False

    with closing(RangeReader(target[0].settings)) as reader:
        for message in reader.messages(target[1], begin, end):
            offset = message.offset() or 0
            broker_times = message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
            with_times.add(offset, content(message, times=True))
            without.add(offset, content(message, times=False))
    return _TargetEnd(without if broker_times else with_times, begin == start, broker_times)


def _read_source(
    source: Side, begin: int, stored: int | None, last: _TargetEnd, *, committed: bool
) -> Fingerprints:
    """Read from `begin` to the end, or to `_BEYOND` records after the target's last record."""
    fingerprints = Fingerprints()
    last_hash = last.records.hashes[-1] if len(last.records) else None
    remaining = _MOST

    with closing(RangeReader(source[0].settings, committed=committed)) as reader:
        for message in reader.messages(source[1], begin, reader.log_end(source[1])):
            offset, content_hash = message.offset() or 0, content(message, times=not last.broker_times)
            fingerprints.add(offset, content_hash)
            remaining -= 1
            if content_hash == last_hash and offset >= (stored or 0):
                remaining = min(remaining, _BEYOND)
            if remaining <= 0:
                break
    return fingerprints


def content(message: Message, *, times: bool) -> int:
    """Return a hash of the parts of a record that a consumer sees."""
    time = message.timestamp()[1] if times else None
    return fingerprint(message.key(), message.value(), all_headers(message), time)


_SHOWN: Final = 5
_LEAVE: Final = "leave it out (topics_exclude), or delete its copy on the target to copy it from the start"


class _PartitionPair(NamedTuple):
    """A partition to take over."""

    topic: CopiedTopic
    source: TopicPartition
    target: TopicPartition


class _Seed(NamedTuple):
    """The beginning of the offset map of a partition."""

    pair: _PartitionPair
    stored: int | None
    end: int
    found: Aligned
    whole: bool
    """The segments cover everything on the target."""
    committed: bool
    """MM2 left out records of aborted transactions."""


@dataclass
class Takeover:
    """The takeover of one flow.

    :param ids: of the flow; its live id begins at sequence 0 in every partition taken over
    """

    source: Cluster
    target: Cluster
    flow: FlowSettings
    state: StateTopic
    ids: ProducerIds
    _stored: dict[TopicPartition, int] | None = field(default=None, init=False)

    def begin(self, pause: Callable[[float], bool]) -> None:
        """Check that MM2 is gone, and read how far it copied.

        :raises Refused: one of its workers is alive
        :raises DrkitError: the target does not answer
        """
        refuse_living(self.target, self.flow, pause)
        self._stored = stored_offsets(self.target, self.flow)

    def take(self, found: TopicSyncResult) -> None:
        """Write the start of copying for every topic that was not taken over before.

        The first time, all topics or none are taken over: MM2 could still continue. Later, a new topic that
        cannot be taken over is left out of `found`.

        :raises Refused: the position of a partition cannot be proven
        """
        new = {n: t for n, t in found.copied.items() if self._known(n) != _ids_of(t)}
        if not new:
            return
        first = not self.state.all(TakeoverRecord)
        seeds, refused = self._look(new)
        if refused and first:
            raise self._refusal([reason for reasons in refused.values() for reason in reasons])
        for name, reasons in refused.items():
            del found.copied[name]
            found.left_out[name] = f"not taken over from MirrorMaker 2: {reasons[0]}: {_LEAVE}"
            observe.event("takeover_refused", level="warning", flow=self.flow.name, topic=name,
                          reason=reasons[0], hint=_LEAVE)  # fmt: skip
        self._write([s for s in seeds if s.pair.source.topic not in refused])
        for name, topic in new.items():
            if name not in refused:
                self._remember(name, topic, [s for s in seeds if s.pair.source.topic == name])

    def _look(self, new: dict[str, CopiedTopic]) -> tuple[list[_Seed], dict[str, list[str]]]:
        seeds: list[_Seed] = []
        refused: dict[str, list[str]] = {}
        maps = self._maps(new)
        for pair in (p for topic in new.values() for p in _pairs(topic)):
            known = maps[pair.source]
            if known.tail is not None or known.pending:
                continue  # drkit has copied here before
            answer = self._seed(pair)
            if isinstance(answer, NotAligned):
                refused.setdefault(pair.source.topic, []).append(f"{pair.target}: {answer.reason}")
            elif answer is not None:
                seeds.append(answer)
        return seeds, refused

    def _known(self, name: str) -> tuple[UUID, UUID] | None:
        known = self.state.get(TakeoverRecord, name)
        return None if known is None else (known.source_id, known.target_id)

    def _maps(self, topics: dict[str, CopiedTopic]) -> dict[TopicPartition, PartitionMap]:
        pairs = [p for t in topics.values() for p in _pairs(t)]
        name, numbers = offset_map_topic(self.flow.source), {self._bucket(p) for p in pairs}
        with connections("takeover", self.target.settings) as (cluster,):
            buckets = load(cluster.loop, cluster, name, numbers)
        return {p.source: buckets[self._bucket(p)].of(*_ids_of(p.topic), p.source.partition) for p in pairs}

    def _bucket(self, pair: _PartitionPair) -> int:
        return bucket_of(*pair.source, self.flow.buckets)

    def _seed(self, pair: _PartitionPair) -> _Seed | NotAligned | None:
        """Return the start of copying, or the reason why it is unknown; None if nothing was copied."""
        stored = None if self._stored is None else self._stored.get(pair.source)
        start = list_offsets(self.target, [pair.target], "earliest")[pair.target]
        end = list_offsets(self.target, [pair.target], "latest", committed=True)[pair.target]
        if end == 0 and stored is None:
            return None
        if end == 0:
            return NotAligned(f"it is empty, but MirrorMaker 2 says it copied up to source offset {stored}")
        compared: Compared | NotAligned = compare(
            (self.source, pair.source), (self.target, pair.target), (start, end), stored
        )
        if isinstance(compared, NotAligned):
            return compared
        if not compared.committed:
            observe.event("takeover_of_aborted_records", level="warning", flow=self.flow.name,
                          topic=pair.target.topic, partition=pair.target.partition)  # fmt: skip
        return _Seed(pair, stored, end, *compared)

    def _write(self, seeds: list[_Seed]) -> None:
        """Write the result into the map."""
        if not seeds:
            return
        beginnings = {
            CopiedPartition(*s.pair[1:], *_ids_of(s.pair.topic)): partial(self._records, s) for s in seeds
        }
        map_id = known_of(self.state.records).producers.map_id
        write = partial(begin_partitions, flow=self.flow, wanted=beginnings, map_id=map_id)
        ask_once(self.target.settings, "takeover", write, what="write the offsets of a takeover")

    def _records(self, seed: _Seed, _state: PartitionMap, _reign: int) -> list[MapRecord]:
        """Return map records of the part already copied, and of the start of copying."""
        segments = seed.found.segments
        if not seed.whole:
            segments = ((0, 0, UNKNOWN), *segments)
        copied_end = segments[-1][1] + segments[-1][2] if segments and segments[-1][2] > 0 else seed.end
        begins = Intent(
            mode=Mode.REPAIR,
            nonce=new_nonce(),
            history=History(*self.ids.current),
            base_sequence=0,
            downstream=seed.end,
            previous_end=copied_end,
            leader_epoch=-1,
            runs=((seed.found.next_source, 0),),
        )
        return [*(parts(SegmentMap.of(segments), seed.end) if segments else ()), begins]

    def _remember(self, name: str, topic: CopiedTopic, seeds: list[_Seed]) -> None:
        partitions = {
            s.pair.source.partition: TakenOverPartition(
                s.stored, s.found.next_source, s.end, s.found.behind, s.committed
            )
            for s in seeds
        }
        self.state.put(TakeoverRecord(*_ids_of(topic), partitions), name)
        if seeds:
            observe.event("taken_over", flow=self.flow.name, topic=name, partitions=len(seeds),
                          found_behind=sum(s.found.behind for s in seeds))  # fmt: skip

    def _refusal(self, reasons: list[str]) -> Refused:
        more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
        missing = "" if self._stored is not None else (
            f"; {offsets_topic(self.flow.source)} does not exist there"
        )  # fmt: skip
        evidence = "; ".join(reasons[:_SHOWN]) + more + missing
        return Refused("takeover_refused", where=self.target.alias, evidence=evidence, flow=self.flow.name)


def _pairs(topic: CopiedTopic) -> list[_PartitionPair]:
    name = topic.source.name
    return [
        _PartitionPair(topic, TopicPartition(name, p), TopicPartition(topic.target_name, p))
        for p in sorted(topic.source.leaders)
    ]


def _ids_of(topic: CopiedTopic) -> tuple[UUID, UUID]:
    return topic.source.topic_id, UUID(topic.target_id)
