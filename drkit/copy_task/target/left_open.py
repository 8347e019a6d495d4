"""Ends drkit's own transactions that are open on a partition after their coordinator has ended them.

A partition may miss the marker of a transaction: a coordinator leaves it out while the partition has no
leader (Kafka 4.3: "likely deleted already"), for example when a broker shuts down; an unclean election loses
it. Then the transaction stays open there forever: readers of committed records see nothing after it, and no
task can settle the partition. The task that holds the bucket writes the missing marker: after its
InitProducerId the coordinator decides nothing more about older epochs. In the current epoch the appender of
the bucket waits for the markers of each transaction, and begins a new epoch where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from drkit.catalogue import ERRORS
from drkit.control_key import Signatures
from drkit.copy_task.core.context import TaskContext, error_name
from drkit.copy_task.core.partition import PartitionCopy
from drkit.errors import Failed
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED
from drkit.kafka.raw import RawError
from drkit.kafka.reading.log_tail import LogTail, NoAnswerYet
from drkit.kafka.requests import TopicMetadata, metadata
from drkit.kafka.transactions import OpenProducer, open_in
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.offsets import Intent, MapKey, PartitionMap, decode_record
from drkit.offsets.map_record import Mode


async def end_on_map(task: TaskContext, bucket: int) -> None:
    """End hanging transactions on a bucket of the map, before the bucket is read.

    :raises RawError: a broker does not answer
    :raises Failed: drkit may not write the marker
    """
    topic = await task.internal(task.lease.map_topic, refresh=True)
    leader = topic.leaders.get(bucket)
    if leader is None or leader.node < 0:
        return
    map_partition = TopicPartition(task.lease.map_topic, bucket)
    for tp, opened in (await _left_open(task, bucket, {map_partition: leader.node})).items():
        commits = await _has_committed_data(task, tp, topic, opened)
        if (code := await _end(task, bucket, tp, opened, commits=commits)) == CLUSTER_AUTHORIZATION_FAILED:
            where = f"{tp} on {task.links.target.alias}"
            raise Failed("transaction_left_open", where=where, evidence=error_name(code))


async def end_on_targets(task: TaskContext, partitions: Iterable[PartitionCopy]) -> None:
    """End hanging transactions on partitions that are being settled; their map has been read.

    :raises RawError: a broker does not answer
    """
    by_bucket: dict[int, dict[TopicPartition, PartitionCopy]] = {}
    for p in partitions:
        by_bucket.setdefault(p.lease.bucket, {})[p.target] = p
    for bucket, by_target in by_bucket.items():
        leaders = {tp: p.target_leader for tp, p in by_target.items()}
        for tp, opened in (await _left_open(task, bucket, leaders)).items():
            p = by_target[tp]
            state = task.buckets[bucket].of(p.source_id, p.target_id, p.target.partition)
            commits = is_in_map(state, opened.state.open_since)
            if await _end(task, bucket, tp, opened, commits=commits) == CLUSTER_AUTHORIZATION_FAILED:
                task.stop_unfenced(p, ERRORS["transaction_left_open"].sentence)


def is_in_map(state: PartitionMap, open_since: int) -> bool:
    """Return whether the map shows that a transaction still open on a target partition was committed.

    A later transaction may have copied the same records to other offsets, which the target has lost since.
    """
    record = state.segments.record_before(open_since + 1)
    is_copied = state.tail is not None and state.tail.copied_end > open_since
    return is_copied and record is not None and record[1] == open_since


async def _left_open(
    task: TaskContext, bucket: int, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OpenProducer]:
    """Return the hanging transactions of a bucket's producer: those of older epochs."""
    identity = task.transactions[bucket].identity
    if task.expired or identity.id < 0:
        return {}
    opened = await opened_by(task, identity.id, leaders)
    return {tp: each for tp, each in opened.items() if each.state.epoch < identity.epoch}


async def opened_by(
    task: TaskContext, producer_id: int, leaders: Mapping[TopicPartition, int], *, complete: bool = False
) -> dict[TopicPartition, OpenProducer]:
    """Return the open transactions of a producer; parameters, results and errors as :func:`open_in`."""
    opened = await open_in(task.links.target, leaders, complete=complete)
    return {tp: o for tp, producers in opened.items() for o in producers if o.producer_id == producer_id}


async def _end(
    task: TaskContext, bucket: int, tp: TopicPartition, opened: OpenProducer, *, commits: bool
) -> int:
    """Write the marker; returns Kafka's error code."""
    newest = task.transactions[bucket].identity.epoch
    code = await opened.end(task.links.target, tp, newest, commits=commits)
    if not code:
        task.emit(
            "transaction_ended", tp, offset=opened.state.open_since, producer_id=opened.producer_id,
            committed=commits, reason="its coordinator took a transaction of drkit's own for ended",
        )  # fmt: skip
    return code


async def _has_committed_data(
    task: TaskContext, map_partition: TopicPartition, topic: TopicMetadata, opened: OpenProducer
) -> bool:
    """Return whether the transaction is committed on a target partition; then its map record is, too."""
    copies_by_key = {p.key: p for p in task.in_bucket[map_partition.partition]}
    topics = await metadata(task.links.target, sorted({p.target.topic for p in copies_by_key.values()}))
    for key, intent in await _bulk_records(task, map_partition, topic, opened):
        p = copies_by_key.get(key)
        leader = topics[p.target.topic].leaders.get(p.target.partition) if p is not None else None
        if p is not None and leader is not None and await _is_committed(task, p, leader.node, opened, intent):
            return True
    return False


async def _bulk_records(
    task: TaskContext, map_partition: TopicPartition, topic: TopicMetadata, opened: OpenProducer
) -> list[tuple[MapKey, Intent]]:
    """Return the map's records of the open transaction."""
    target, intents = task.links.target, []
    signatures = Signatures(target.control, map_partition)
    tail = LogTail(target, map_partition, lambda _record: None, signatures=signatures, topic=topic)
    tail.next_offset = opened.state.open_since
    try:
        await tail.to_end(target)
    except NoAnswerYet as error:
        raise RawError(f"{map_partition}: {error}") from error
    for record in tail.undecided_of.get(opened.producer_id, ()):
        with suppress(ValueError):
            decoded = decode_record(record.key, record.value)
            if isinstance(decoded.record, Intent) and decoded.record.mode is Mode.BULK:
                intents.append((decoded.where, decoded.record))
    return intents


async def _is_committed(
    task: TaskContext, p: PartitionCopy, node: int, opened: OpenProducer, intent: Intent
) -> bool:
    if node < 0:
        raise RawError(f"{p.target} has no leader")
    if p.target in await opened_by(task, opened.producer_id, {p.target: node}):
        return False
    start = intent.downstream
    batches = await scan(task.links.target, node, p.target, p.target_id, start, start + 1)
    return any(b.base == start and b.producer_id == opened.producer_id and not b.aborted for b in batches)
