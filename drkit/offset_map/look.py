"""What the leaders of target partitions say of their logs, asked before the map is read (decision 9).

A task that is about to append asks `look_at_leaders`: what its own producer ids wrote is in the answer, and
no transaction of drkit is undecided. A reader beside a running replicator, which may append thousands of
records between two requests, asks `look_while_copying`: the last batch in the log has a sequence number and
its offset at once.
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
"""As a fetch limit: a broker returns the first batch whole, however large."""
_NONE_YET: Final = -1


class LastBatch(NamedTuple):
    """The batch that ends at the log's end."""

    history: History
    next_sequence: int


@dataclass(frozen=True, slots=True)
class Look:
    """What the leader of a target partition knew at one moment, or its error."""

    error: int
    end: int = -1
    """End of its log; everything before it is replicated and visible by now."""
    start: int = -1
    """First offset left in it; −1 where that was not asked."""
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
        """What of this says something about a partition with such a map."""
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
        """The epoch that the leader remembers for a producer id."""
        known = self.producers.get(producer_id)
        return known.epoch if known is not None else None

    def untouched(self, producer_id: int) -> bool:
        """Nothing was appended in the epoch that the leader remembers: it comes from a marker alone."""
        known = self.producers.get(producer_id)
        return known is not None and known.last_sequence == _NONE_YET

    def _next_sequence(self, history: History | None) -> int | None:
        if history is None:
            return None
        if self.last is not None:
            return self.last.next_sequence if self.last.history == history else None
        known = self.producers.get(history.producer_id)
        if known is None or known.epoch != history.epoch:
            return None
        return (known.last_sequence + 1) % SEQUENCE_MODULUS


@dataclass(frozen=True, slots=True)
class PartitionQuery:
    """A partition to look at."""

    target: TopicPartition
    bulk_id: int = -1
    """Producer id of the bucket's transactions: its markers must be written before the end counts."""


async def look_at_leaders(
    cluster: RawCluster, topics: Mapping[str, TopicMetadata], wanted: Iterable[PartitionQuery]
) -> dict[TopicPartition, Look]:
    """Ask the leaders for the ends of their logs and for the producers they remember."""
    queries = {w.target: w for w in wanted}

    async def ask(node: int, led: list[TopicPartition]) -> dict[TopicPartition, Look]:
        try:
            return await _look_at_node(cluster, node, topics, [queries[tp] for tp in led])
        except RawError:  # this broker alone does not answer
            return dict.fromkeys(led, Look(codes.REQUEST_TIMED_OUT))

    out = dict.fromkeys(queries, Look(codes.LEADER_NOT_AVAILABLE))
    return out | await ask_leaders(cluster, topics, queries, ask)


_Ends = dict[TopicPartition, tuple[int, Mapping[int, ProducerState]]]


async def _look_at_node(
    cluster: RawCluster, node: int, topics: Mapping[str, TopicMetadata], wanted: list[PartitionQuery]
) -> dict[TopicPartition, Look]:
    out: dict[TopicPartition, Look] = {}
    waiting = {w.target: w for w in wanted}
    ends: _Ends = {}
    deadline = boottime() + _PATIENCE_SECONDS
    while True:
        open_ = [w for tp, w in waiting.items() if tp not in ends]
        out |= await _written(cluster, node, open_, ends)
        seen = await list_offsets(cluster, node, dict.fromkeys(ends, LATEST), committed=False)
        for tp, (end, producers) in list(ends.items()):
            if seen[tp].error:
                out[tp] = Look(seen[tp].error)
            elif seen[tp].offset >= end:
                epoch = topics[tp.topic].leaders[tp.partition].epoch
                out[tp] = Look(0, end, leader_epoch=epoch, producers=producers)
        for tp in out:
            ends.pop(tp, None)
            waiting.pop(tp, None)
        if not waiting:
            return out
        if boottime() > deadline:  # not replicated, or a transaction of drkit stays open
            return out | {tp: Look(codes.REQUEST_TIMED_OUT) for tp in waiting}
        await cluster.loop.sleep(_PAUSE_SECONDS)


async def _written(
    cluster: RawCluster, node: int, wanted: list[PartitionQuery], ends: _Ends
) -> dict[TopicPartition, Look]:
    """Where the leader's log ends and which producers it knows; returns only the errors.

    Producers first: what they had appended is before the end seen afterwards. EndTxn answers before its
    markers are written, so a partition with an open transaction of this flow is left for another try.
    """
    partitions = [w.target for w in wanted]
    if not partitions:
        return {}
    producers = await describe_producers(cluster, node, partitions)
    log = await list_offsets(cluster, node, dict.fromkeys(partitions, LATEST), committed=False, written=True)
    failed = {}
    for w in wanted:
        error, known = producers[w.target]
        bulk = known.get(w.bulk_id)
        if error or log[w.target].error:
            failed[w.target] = Look(error or log[w.target].error)
        elif bulk is None or bulk.open_since < 0:
            ends[w.target] = (log[w.target].offset, known)
    return failed


async def look_while_copying(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    targets: Iterable[TopicPartition],
    promoted: Container[TopicPartition] = (),
) -> dict[TopicPartition, Look]:
    """Starts and last stable offsets, and the last batch of each log; what has no answer is left out.

    :param promoted: their last batch is a producer's: it is not read
    """
    wanted = list(targets)
    starts = await listed(cluster, topics, wanted, EARLIEST)
    ends = await listed(cluster, topics, wanted, LATEST)
    known = {at: (start, ends[at]) for at, start in starts.items() if at in ends}
    asked = {
        at: cluster.loop.spawn(_last_batch, cluster, topics[at.topic], at, *span)
        for at, span in known.items()
        if at not in promoted
    }
    still = {
        at: Look(0, end, start, topics[at.topic].leaders[at.partition].epoch)
        for at, (start, end) in known.items()
        if at in promoted
    }
    return still | {at: await future for at, future in asked.items()}


async def _last_batch(
    cluster: RawCluster, topic: TopicMetadata, at: TopicPartition, start: int, end: int
) -> Look:
    """Take the log's last batch as its end, when it shows the flow's sequence number there."""
    leader = topic.leaders[at.partition]
    bare = Look(0, end, start, leader.epoch)
    if end <= start:
        return bare
    try:
        answer = await fetch_one(
            cluster, leader.node, (at.topic, topic.topic_id), at.partition, end - 1, max_bytes=_ONE_BATCH,
            max_wait_ms=0,
        )  # fmt: skip
    except RawError:
        return Look(codes.REQUEST_TIMED_OUT)
    data = answer.records or b""
    if answer.error_code or len(data) < HEADER_SIZE:
        return bare
    header = read_header(data)
    if header.is_control or header.is_transactional or header.producer_id < 0:
        return bare
    sequence = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCE_MODULUS
    last = LastBatch(History(header.producer_id, header.producer_epoch), sequence)
    return Look(0, header.next_offset, start, leader.epoch, last=last)
