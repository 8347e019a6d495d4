"""Where each partition stands: the offset map settled against the target's log.

The target alone answers, so a failover on any machine uses the same code as a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    LATEST,
    ListedOffset,
    ProducerState,
    TopicMetadata,
    describe_producers,
    fetch_one,
    list_offsets,
)
from drkit.model import TopicPartition
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve
from drkit.wire import split

_PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.05
_SCAN_BYTES = 8 << 20


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


async def settle(
    cluster: RawCluster, topics: dict[str, TopicMetadata], wanted: Iterable[Wanted]
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: two requests per broker, and a scan where numbers do not suffice."""
    by_node: dict[int, list[Wanted]] = {}
    out: dict[TopicPartition, Settled] = {}
    for w in wanted:
        leader = topics[w.target.topic].leaders.get(w.target.partition)
        if leader is None or leader.node < 0:
            out[w.target] = Settled(None, 5, None)
        else:
            by_node.setdefault(leader.node, []).append(w)
    futures = [cluster.loop.spawn(_settle_node, cluster, topics, n, ws) for n, ws in by_node.items()]
    for future in futures:
        out.update(await future)
    return out


async def _settle_node(
    cluster: RawCluster, topics: dict[str, TopicMetadata], node: int, wanted: list[Wanted]
) -> dict[TopicPartition, Settled]:
    partitions = [w.target for w in wanted]
    # Producers first: the end seen afterwards is never behind what they had appended, once it is
    # replicated; a high watermark that still lags is waited for below.
    producers = await describe_producers(cluster, node, partitions)
    ends = await list_offsets(cluster, node, dict.fromkeys(partitions, LATEST), committed=False)
    out = {}
    for w in wanted:
        out[w.target] = await _settle_one(cluster, topics, node, w, producers[w.target], ends[w.target])
    return out


async def _settle_one(
    cluster: RawCluster,
    topics: dict[str, TopicMetadata],
    node: int,
    wanted: Wanted,
    producers: tuple[int, dict[int, ProducerState]],
    listed: ListedOffset,
) -> Settled:
    error, known = producers
    if error or listed.error:
        return Settled(None, error or listed.error, None)
    listed, known = await _markers_written(cluster, node, wanted, listed, known)
    ours = known.get(wanted.producer_id)
    sequence = None
    if ours is not None and ours.last_sequence >= 0:
        sequence = (ours.last_sequence + 1) % SEQUENCE_MODULUS
    end = listed.offset
    waited = 0.0
    expected = _expected_end(wanted.state, sequence)
    while expected is not None and end < expected and waited < _PATIENCE_SECONDS:
        await cluster.loop.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
        again = await list_offsets(cluster, node, {wanted.target: LATEST}, committed=False)
        if again[wanted.target].error:
            return Settled(None, again[wanted.target].error, None)
        end = again[wanted.target].offset
    answer = resolve(wanted.state, end=end, next_sequence=sequence, own_ids=wanted.own_ids)
    if isinstance(answer, NeedLog):
        topic_id = topics[wanted.target.topic].topic_id
        log = await scan(cluster, node, wanted.target, topic_id, answer.start, end)
        answer = resolve(wanted.state, end=end, next_sequence=sequence, own_ids=wanted.own_ids, log=log)
    epoch = ours.epoch if ours is not None else None
    return Settled(answer if isinstance(answer, Resolution) else None, 0, epoch)


async def _markers_written(
    cluster: RawCluster,
    node: int,
    wanted: Wanted,
    listed: ListedOffset,
    known: dict[int, ProducerState],
) -> tuple[ListedOffset, dict[int, ProducerState]]:
    """EndTxn answers before the markers stand: wait for those of our own transactions."""
    waited = 0.0
    while (bulk := known.get(wanted.bulk_id)) is not None and bulk.open_since >= 0:
        if waited >= _PATIENCE_SECONDS:
            raise RawError(f"a transaction of drkit on {wanted.target} stays open")
        await cluster.loop.sleep(_PAUSE_SECONDS / 5)
        waited += _PAUSE_SECONDS / 5
        error, known = (await describe_producers(cluster, node, [wanted.target]))[wanted.target]
        listed = (await list_offsets(cluster, node, {wanted.target: LATEST}, committed=False))[wanted.target]
        if error or listed.error:
            raise RawError(f"Kafka error code {error or listed.error} on {wanted.target}")
    return listed, known


def _expected_end(state: PartitionMap, next_sequence: int | None) -> int | None:
    """Where the log must end, were everything the leader remembers visible and nothing foreign."""
    if next_sequence is None or state.tail is None or not state.tail.live:
        return None
    ahead = (next_sequence - state.tail.sequence) % SEQUENCE_MODULUS
    return state.tail.downstream + ahead if ahead < SEQUENCE_MODULUS // 2 else None


async def scan(
    cluster: RawCluster, node: int, partition: TopicPartition, topic_id: UUID, start: int, end: int
) -> list[LogBatch]:
    """Headers of the target's batches in [start, end), with what was aborted marked.

    :raises RawError: the leader stopped answering
    """
    out: list[LogBatch] = []
    position = start
    while position < end:
        answer = await fetch_one(
            cluster,
            node,
            (partition.topic, topic_id),
            partition.partition,
            position,
            committed=False,
            max_bytes=_SCAN_BYTES,
        )
        if answer.error_code:
            raise RawError(f"scan of {partition} failed with Kafka error code {answer.error_code}")
        aborted = await _aborted(cluster, node, partition, topic_id, position)
        before = position
        for header, _ in split(answer.records or b""):
            if header.next_offset <= position or header.base_offset >= end:
                continue
            gone = header.is_transactional and any(
                p == header.producer_id and first <= header.base_offset for p, first in aborted
            )
            out.append(
                LogBatch(
                    header.base_offset,
                    header.last_offset_delta + 1,
                    header.producer_id,
                    header.base_sequence,
                    header.crc & 0xFFFFFFFF,
                    header.is_transactional,
                    header.is_control,
                    gone,
                )
            )
            position = header.next_offset
        if position == before:
            break
    return out


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
    return [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
