"""Where each partition stands: the offset map settled against the target's log.

The target alone answers, so a failover on any machine uses the same code as a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from drkit.clock import boottime
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    ProducerState,
    TopicMetadata,
    aborted_in,
    describe_producers,
    fetch_one,
    list_offsets,
)
from drkit.model import TopicPartition
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve
from drkit.wire import BatchHeader, split
from drkit.wire.aborted import AbortedTransactions

_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.05
_SCAN_BYTES = 8 << 20
_ROUNDS = 4
_LEADER_NOT_AVAILABLE = 5
_TIMED_OUT = 7
_OFFSET_OUT_OF_RANGE = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition to settle."""

    target: TopicPartition
    state: PartitionMap
    own_ids: frozenset[int]
    producer_id: int
    """The flow's current live producer id."""
    bulk_id: int = -1
    """Producer id of the bucket's transactions: its markers must be written before the end counts."""


class Settled(NamedTuple):
    """Where a partition stands, or the Kafka error code that prevents the answer."""

    resolution: Resolution | None
    error: int
    producer_epoch: int | None
    """Epoch the leader remembers for our producer id; above our own, we were fenced."""


class Look(NamedTuple):
    """What the leader of a target partition knew at one moment, or its error."""

    error: int
    end: int = -1
    """End of its log; everything before it is replicated and visible by now."""
    next_sequence: int | None = None
    producer_epoch: int | None = None


async def settle(
    cluster: RawCluster,
    topics: dict[str, TopicMetadata],
    wanted: Iterable[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: three requests per broker, and a scan where numbers do not suffice.

    The order matters while somebody else appends (another task by mistake, or the copier while a reader
    translates): the end of the log first, then the map. An intent is durable before its batch, so a map
    read after the log knows every batch in it; read before, it would take a batch behind a hole of the
    source for the continuation of what it knows.

    :param read_map: reads the states in `wanted` on to the end of the map topic, in place
    """
    wanted = list(wanted)
    looks = await look_at_leaders(cluster, topics, wanted)
    await read_map()
    shorter: set[TopicPartition] = set()
    for _ in range(_ROUNDS):
        # The map confirms more than the log held: it grew between, or the target lost its tail. Only a look
        # after the map was read tells which: one that is still too short proves the loss.
        behind = _behind(wanted, looks, shorter)
        if not behind:
            break
        confirmed = {w.target: _confirmed(w) for w in behind}
        again = await look_at_leaders(cluster, topics, behind)
        looks.update(again)
        shorter |= {tp for tp, look in again.items() if 0 <= look.end < confirmed[tp]}
        await read_map()
    for w in _behind(wanted, looks, shorter):
        looks[w.target] = Look(_TIMED_OUT)  # others write all the time: ask again later
    out = {}
    for w in wanted:
        out[w.target] = await _settle_one(cluster, topics, w, looks[w.target])
    return out


def _behind(
    wanted: list[Wanted], looks: dict[TopicPartition, Look], shorter: set[TopicPartition]
) -> list[Wanted]:
    return [w for w in wanted if w.target not in shorter and _confirmed(w) > looks[w.target].end >= 0]


def _confirmed(wanted: Wanted) -> int:
    return wanted.state.tail.downstream if wanted.state.tail else 0


async def look_at_leaders(
    cluster: RawCluster, topics: dict[str, TopicMetadata], wanted: Iterable[Wanted]
) -> dict[TopicPartition, Look]:
    """Ask the leaders for the ends of their logs and for what they remember of our producer."""
    by_node: dict[int, list[Wanted]] = {}
    out: dict[TopicPartition, Look] = {}
    for w in wanted:
        leader = topics[w.target.topic].leaders.get(w.target.partition)
        if leader is None or leader.node < 0:
            out[w.target] = Look(_LEADER_NOT_AVAILABLE)
        else:
            by_node.setdefault(leader.node, []).append(w)
    futures = {n: cluster.loop.spawn(_look_at_node, cluster, n, ws) for n, ws in by_node.items()}
    for node, future in futures.items():
        try:
            out.update(await future)
        except RawError:  # this broker alone does not answer
            out |= {w.target: Look(_TIMED_OUT) for w in by_node[node]}
    return out


async def _look_at_node(cluster: RawCluster, node: int, wanted: list[Wanted]) -> dict[TopicPartition, Look]:
    out: dict[TopicPartition, Look] = {}
    waiting = {w.target: w for w in wanted}
    ends: dict[TopicPartition, tuple[int, ProducerState | None]] = {}
    deadline = boottime() + _PATIENCE_SECONDS
    while True:
        open_ = [w for tp, w in waiting.items() if tp not in ends]
        out |= await _written(cluster, node, open_, ends)
        seen = await list_offsets(cluster, node, dict.fromkeys(ends, LATEST), committed=False)
        for tp, (end, ours) in list(ends.items()):
            if seen[tp].error:
                out[tp] = Look(seen[tp].error)
            elif seen[tp].offset >= end:
                known = ours is not None and ours.last_sequence >= 0
                sequence = (ours.last_sequence + 1) % SEQUENCE_MODULUS if known and ours else None
                out[tp] = Look(0, end, sequence, ours.epoch if ours else None)
        for tp in out:
            ends.pop(tp, None)
            waiting.pop(tp, None)
        if not waiting:
            return out
        if boottime() > deadline:  # not replicated, or a transaction of drkit stays open
            return out | {tp: Look(_TIMED_OUT) for tp in waiting}
        await cluster.loop.sleep(_PAUSE_SECONDS)


async def _written(
    cluster: RawCluster,
    node: int,
    wanted: list[Wanted],
    ends: dict[TopicPartition, tuple[int, ProducerState | None]],
) -> dict[TopicPartition, Look]:
    """Where the leader's log ends and what it knows of our producer; returns only the errors.

    Producers first: what they had appended is before the end seen afterwards. EndTxn answers before its
    markers stand, so a partition in which a transaction of ours is open is left for another try.
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
            ends[w.target] = (log[w.target].offset, known.get(w.producer_id))
    return failed


async def _settle_one(
    cluster: RawCluster, topics: dict[str, TopicMetadata], wanted: Wanted, look: Look
) -> Settled:
    if look.error:
        return Settled(None, look.error, None)
    end, sequence, own = look.end, look.next_sequence, wanted.own_ids
    # What this look finds is written down by the copier alone: the next look starts from the map again.
    state = replace(wanted.state, segments=wanted.state.segments.copy())
    answer = resolve(state, end=end, next_sequence=sequence, own_ids=own)
    topic = topics[wanted.target.topic]
    node = topic.leaders[wanted.target.partition].node
    try:
        if isinstance(answer, NeedLog):
            log = await scan(cluster, node, wanted.target, topic.topic_id, answer.start, end)
            answer = resolve(state, end=end, next_sequence=sequence, own_ids=own, log=log)
        if isinstance(answer, Resolution) and answer.first_foreign:
            # Aborted beginnings of our own are nobody else's records.
            log = await scan(cluster, node, wanted.target, topic.topic_id, 0, end, first_visible=True)
            answer.first_foreign = any(not (batch.control or batch.aborted) for batch in log)
    except RawError:
        return Settled(None, _TIMED_OUT, look.producer_epoch)
    return Settled(answer if isinstance(answer, Resolution) else None, 0, look.producer_epoch)


async def scan(
    cluster: RawCluster,
    node: int,
    partition: TopicPartition,
    topic_id: UUID,
    start: int,
    end: int,
    *,
    first_visible: bool = False,
) -> list[LogBatch]:
    """Headers of the target's batches in [start, end), with what was aborted marked.

    :param first_visible: stop behind the first batch with records that a consumer sees
    :raises RawError: the leader stopped answering
    """
    out: list[LogBatch] = []
    position = start
    while position < end:
        topic, number = (partition.topic, topic_id), partition.partition
        answer = await fetch_one(
            cluster, node, topic, number, position, committed=False, max_bytes=_SCAN_BYTES
        )
        if answer.error_code == _OFFSET_OUT_OF_RANGE:
            earliest = await list_offsets(cluster, node, {partition: EARLIEST}, committed=False)
            if earliest[partition].offset > position:
                position = earliest[partition].offset  # the target's own retention took what was there
                continue
        if answer.error_code:
            raise RawError(f"scan of {partition} failed with Kafka error code {answer.error_code}")
        aborted = AbortedTransactions(await _aborted(cluster, node, partition, topic_id, position))
        before = position
        for header, batch in split(answer.records or b""):
            aborted.advance(header.last_offset)
            if header.is_control:
                aborted.end(header, batch)
            if header.next_offset <= position or header.base_offset >= end:
                continue
            gone = aborted.hides(header)
            out.append(_log_batch(header, gone=gone))
            position = header.next_offset
            if first_visible and not header.is_control and not gone:
                return out
        if position == before:
            # Half of the log would be taken for all of it.
            raise RawError(f"{partition} gave no records at {position}, before its end {end}")
    return out


def _log_batch(header: BatchHeader, *, gone: bool) -> LogBatch:
    return LogBatch(
        header.base_offset,
        header.last_offset_delta + 1,
        header.producer_id,
        header.base_sequence,
        header.crc & 0xFFFFFFFF,
        header.is_transactional,
        header.is_control,
        gone,
    )


async def _aborted(
    cluster: RawCluster, node: int, partition: TopicPartition, topic_id: UUID, start: int
) -> list[tuple[int, int]]:
    answer = await fetch_one(
        cluster,
        node,
        (partition.topic, topic_id),
        partition.partition,
        start,
        committed=True,
        max_bytes=_SCAN_BYTES,
    )
    return aborted_in(answer)
