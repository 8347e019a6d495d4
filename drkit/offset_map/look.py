"""Log state of target partitions, read from their leaders before the map is read (decision 9).

A task that is about to append uses `look_at_leaders`: it returns the state of the task's own producer ids,
and no transaction of drkit is undecided. A reader beside a running replicator, which may append thousands of
records between two requests, uses `look_while_copying`: the last batch in the log has a sequence number
together with its offset.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from drkit.clock import boottime
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    ProducerState,
    TopicMetadata,
    ask_leaders,
    describe_producers,
    fetch_one,
    list_offsets,
    listed,
)
from drkit.model import TopicPartition
from drkit.offsets import History, PartitionMap
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.resolution import LogLook
from drkit.wire import read_header
from drkit.wire.header import HEADER_SIZE

_PATIENCE_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.05
_ONE_BATCH: Final = 1
"""Fetch limit; a broker returns the first batch whole, however large."""
_NONE_YET: Final = -1


class LastBatch(NamedTuple):
    """The last batch of a log."""

    history: History
    next_sequence: int


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a target partition as its leader reported it, or the error."""

    error: int
    end: int = -1
    """End of its log; everything before it is replicated and visible."""
    start: int = -1
    """Its log start offset; −1 if it was not read."""
    leader_epoch: int = -1
    producers: Mapping[int, ProducerState] = field(default_factory=dict)
    last: LastBatch | None = None

    def log_look(
        self,
        state: PartitionMap,
        own_ids: frozenset[int],
        bulk_ids: frozenset[int] = frozenset(),
        began_at: int | None = None,
    ) -> LogLook:
        """Return the part of this state that matters for a partition with such a map."""
        same = state.tail is not None and -1 < self.leader_epoch == state.tail.target_epoch
        return LogLook(
            self.end,
            self._next_sequence(state.history),
            own_ids,
            bulk_ids,
            start=max(0, self.start),
            same_leader=same,
            began_at=began_at,
        )

    def producer_epoch(self, producer_id: int) -> int | None:
        """Return the epoch of a producer id on the leader, or None if it does not know the id."""
        producer = self.producers.get(producer_id)
        return producer.epoch if producer is not None else None

    def untouched(self, producer_id: int) -> bool:
        """Return whether the producer appended nothing in its current epoch, which only a marker has set."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.last_sequence == _NONE_YET

    def _next_sequence(self, history: History | None) -> int | None:
        if history is None:
            return None
        if self.last is not None:
            return self.last.next_sequence if self.last.history == history else None
        producer = self.producers.get(history.producer_id)
        if producer is None or producer.epoch != history.epoch:
            return None
        return (producer.last_sequence + 1) % SEQUENCE_MODULUS


@dataclass(frozen=True, slots=True)
class PartitionQuery:
    """A partition to look at."""

    target: TopicPartition
    bulk_id: int = -1
    """Producer id of the bucket's transactions: its markers must be written before the end counts."""


async def look_at_leaders(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], wanted: Iterable[PartitionQuery]
) -> dict[TopicPartition, Look]:
    """Read log ends and producer states from the leaders."""
    queries = {w.target: w for w in wanted}

    async def ask(node: int, led: list[TopicPartition]) -> dict[TopicPartition, Look]:
        try:
            return await _look_at_node(cluster, node, topics, [queries[tp] for tp in led])
        except RawError:  # only this broker does not answer
            return dict.fromkeys(led, Look(codes.REQUEST_TIMED_OUT))

    looks = dict.fromkeys(queries, Look(codes.LEADER_NOT_AVAILABLE))
    return looks | await ask_leaders(cluster, topics, queries, ask)


_Ends = dict[TopicPartition, tuple[int, Mapping[int, ProducerState]]]


async def _look_at_node(
    cluster: RawCluster, node: int, topics: Mapping[str, TopicMetadata], queries: list[PartitionQuery]
) -> dict[TopicPartition, Look]:
    looks: dict[TopicPartition, Look] = {}
    pending = {query.target: query for query in queries}
    ends: _Ends = {}
    deadline = boottime() + _PATIENCE_SECONDS
    while True:
        unread = [query for tp, query in pending.items() if tp not in ends]
        looks |= await _log_ends(cluster, node, unread, ends)
        high_watermarks = await list_offsets(cluster, node, dict.fromkeys(ends, LATEST), committed=False)
        for tp, (end, producers) in list(ends.items()):
            if high_watermarks[tp].error:
                looks[tp] = Look(high_watermarks[tp].error)
            elif high_watermarks[tp].offset >= end:
                epoch = topics[tp.topic].leaders[tp.partition].epoch
                looks[tp] = Look(0, end, leader_epoch=epoch, producers=producers)
        for tp in looks:
            ends.pop(tp, None)
            pending.pop(tp, None)
        if not pending:
            return looks
        if boottime() > deadline:  # not replicated, or a transaction of drkit stays open
            return looks | {tp: Look(codes.REQUEST_TIMED_OUT) for tp in pending}
        await cluster.loop.sleep(_PAUSE_SECONDS)


async def _log_ends(
    cluster: RawCluster, node: int, queries: list[PartitionQuery], ends: _Ends
) -> dict[TopicPartition, Look]:
    """Add the leader's log ends and producer states to `ends`; return only the errors.

    Producers are read first: their appends are before the end that is read afterwards. EndTxn returns before
    its markers are written, so a partition with an open transaction of this flow is retried later.
    """
    latest = dict.fromkeys([query.target for query in queries], LATEST)
    if not latest:
        return {}
    producers = await describe_producers(cluster, node, list(latest))
    log_ends = await list_offsets(cluster, node, latest, committed=False, written=True)
    failed = {}
    for query in queries:
        error, states = producers[query.target]
        bulk_state = states.get(query.bulk_id)
        if error or log_ends[query.target].error:
            failed[query.target] = Look(error or log_ends[query.target].error)
        elif bulk_state is None or bulk_state.open_since < 0:
            ends[query.target] = (log_ends[query.target].offset, states)
    return failed


async def look_while_copying(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    targets: Iterable[TopicPartition],
    promoted: Container[TopicPartition] = (),
) -> dict[TopicPartition, Look]:
    """Return log starts, last stable offsets and last batches; partitions without an answer are left out.

    :param promoted: partitions whose last batch is a producer's: it is not read
    """
    partitions = list(targets)
    starts = await listed(cluster, topics, partitions, EARLIEST)
    ends = await listed(cluster, topics, partitions, LATEST)
    spans = {tp: (start, ends[tp]) for tp, start in starts.items() if tp in ends}
    last_batches = {
        tp: cluster.loop.spawn(_last_batch, cluster, topics[tp.topic], tp, *span)
        for tp, span in spans.items()
        if tp not in promoted
    }
    promoted_looks = {
        tp: Look(0, end, start, topics[tp.topic].leaders[tp.partition].epoch)
        for tp, (start, end) in spans.items()
        if tp in promoted
    }
    return promoted_looks | {tp: await future for tp, future in last_batches.items()}


async def _last_batch(
    cluster: RawCluster, topic: TopicMetadata, tp: TopicPartition, start: int, end: int
) -> Look:
    """Take the log's last batch as its end, when it shows the flow's sequence number there."""
    leader = topic.leaders[tp.partition]
    without_last = Look(0, end, start, leader.epoch)
    if end <= start:
        return without_last
    try:
        response = await fetch_one(
            cluster, leader.node, (tp.topic, topic.topic_id), tp.partition, end - 1, max_bytes=_ONE_BATCH,
            max_wait_ms=0,
        )  # fmt: skip
    except RawError:
        return Look(codes.REQUEST_TIMED_OUT)
    data = response.records or b""
    if response.error_code or len(data) < HEADER_SIZE:
        return without_last
    header = read_header(data)
    if header.is_control or header.is_transactional or header.producer_id < 0:
        return without_last
    sequence = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCE_MODULUS
    last = LastBatch(History(header.producer_id, header.producer_epoch), sequence)
    return Look(0, header.next_offset, start, leader.epoch, last=last)
