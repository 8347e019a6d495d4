"""Ends drkit's own transactions that are open on a partition after their coordinator has ended them.

A partition may miss the marker of a transaction: a coordinator leaves it out while the partition has no
leader (Kafka 4.3: "likely deleted already"), for example when a broker shuts down; an unclean election loses
it. Then the transaction stays open there forever: readers of committed records see nothing after it, and no
task can settle the partition. The task that holds the bucket writes the missing marker: after its
InitProducerId the coordinator decides nothing more about older epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from drkit.catalogue import ERRORS
from drkit.control_key import Signatures
from drkit.copy_task.core.context import MARKERS_HINT, TaskContext, error_name
from drkit.copy_task.core.partition import PartitionCopy
from drkit.errors import Failed
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED
from drkit.kafka.raw import RawError
from drkit.kafka.reading.log_tail import LogTail, NoAnswerYet
from drkit.kafka.requests import ProducerState, TopicMetadata, metadata
from drkit.kafka.transactions import Marker, open_in, owners, write_markers
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.offsets import Intent, MapKey, PartitionMap, decode_record
from drkit.offsets.map_record import Mode

_DECIDED: Final = {"CompleteCommit": True, "CompleteAbort": False}
"""The coordinator's state of a transaction that has ended → whether it was committed."""
_REFUSED: Final = ERRORS["transaction_left_open"]


class LeftOpen(NamedTuple):
    """An open transaction of a bucket that no coordinator ends any more."""

    at: TopicPartition
    node: int
    """The partition's leader."""
    producer_id: int
    epoch: int
    """The bucket's newest: with it the marker also fences appends that may still be in flight."""
    state: ProducerState
    committed: bool | None
    """What the coordinator decided; None: unknown."""


async def end_on_map(task: TaskContext, bucket: int) -> None:
    """End what an earlier task left open on a bucket of the map; to be done before the bucket is read.

    :raises RawError: a broker does not answer
    :raises Failed: drkit may not write the marker
    """
    topic = await task.internal(task.lease.map_topic, refresh=True)
    leader = topic.leaders.get(bucket)
    if leader is None or leader.node < 0:
        return
    at = TopicPartition(task.lease.map_topic, bucket)
    for left in await _left_open(task, bucket, {at: leader.node}):
        if left.state.epoch < left.epoch:
            code = await _end(task, left, commits=await _has_committed_data(task, bucket, topic, left))
            if code == CLUSTER_AUTHORIZATION_FAILED:
                raise Failed(
                    "transaction_left_open",
                    where=f"{at.topic}-{at.partition} on {task.links.target.alias}",
                    evidence=error_name(code),
                    hint=MARKERS_HINT,
                )


async def end_on_targets(task: TaskContext, partitions: Iterable[PartitionCopy]) -> None:
    """End what was left open on partitions that are being settled; their map has been read.

    :raises RawError: a broker does not answer
    """
    by_bucket: dict[int, dict[TopicPartition, PartitionCopy]] = {}
    for p in partitions:
        by_bucket.setdefault(p.lease.bucket, {})[p.target] = p
    for bucket, some in by_bucket.items():
        for left in await _left_open(task, bucket, {at: p.target_leader for at, p in some.items()}):
            p, committed = some[left.at], left.committed
            if committed is None:
                state = task.buckets[bucket].of(p.source_id, p.target_id, p.target.partition)
                committed = is_in_map(state, left.state.open_since)
            if await _end(task, left, commits=committed) == CLUSTER_AUTHORIZATION_FAILED:
                task.stop_unfenced(p, _REFUSED.sentence)


def is_in_map(state: PartitionMap, open_since: int) -> bool:
    """Whether a transaction that is open on a target partition was committed: so says the map's record in it.

    A later transaction may have copied the same records to other offsets, which the target has lost since.
    """
    found = state.segments.record_before(open_since + 1)
    known = state.tail is not None and state.tail.copied_end > open_since
    return known and found is not None and found[1] == open_since


async def _left_open(task: TaskContext, bucket: int, leaders: Mapping[TopicPartition, int]) -> list[LeftOpen]:
    """Open transactions of a bucket's producer that nothing else will end."""
    identity = task.transactions[bucket].identity
    if task.expired or identity.id < 0:
        return []
    found = await _open(task, identity.id, leaders)
    current = {at: s for at, s in found.items() if s.epoch == identity.epoch}
    decided = None
    if current:
        # Of this task's own epoch: it may be active, unless its coordinator says that it is not.
        owner = (await owners(task.links.target, [identity.id])).get(identity.id)
        decided = _DECIDED.get(owner.state) if owner is not None else None
        again = await _open(task, identity.id, leaders) if decided is not None else {}
        current = {at: s for at, s in current.items() if at in again and again[at].open_since == s.open_since}
    return [
        LeftOpen(at, leaders[at], identity.id, identity.epoch, state, decided if at in current else None)
        for at, state in found.items()
        if state.epoch < identity.epoch or (decided is not None and at in current)
    ]


async def _open(
    task: TaskContext, producer_id: int, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ProducerState]:
    found = await open_in(task.links.target, leaders)
    return {at: o.state for at, some in found.items() for o in some if o.producer_id == producer_id}


async def _end(task: TaskContext, left: LeftOpen, *, commits: bool) -> int:
    """Write the marker; returns Kafka's error code."""
    marker = Marker(left.producer_id, left.epoch, max(0, left.state.coordinator_epoch), (left.at,), commits)
    codes = await write_markers(task.links.target, left.node, [marker])
    code = codes.get((left.producer_id, left.at), -1)
    if not code:
        task.emit_at(
            "transaction_ended", left.at, offset=left.state.open_since, producer_id=left.producer_id,
            committed=commits, reason="its coordinator took a transaction of drkit's own for ended",
        )  # fmt: skip
    return code


async def _has_committed_data(task: TaskContext, bucket: int, topic: TopicMetadata, left: LeftOpen) -> bool:
    """Whether records of the transaction are committed on a target partition: then its map is, too."""
    mine = {p.key: p for p in task.in_bucket[bucket]}
    topics = await metadata(task.links.target, sorted({p.target.topic for p in mine.values()}))
    for key, intent in await _bulk_records(task, topic, left):
        p = mine.get(key)
        leader = topics[p.target.topic].leaders.get(p.target.partition) if p is not None else None
        if p is not None and leader is not None and await _is_committed(task, p, leader.node, left, intent):
            return True
    return False


async def _bulk_records(
    task: TaskContext, topic: TopicMetadata, left: LeftOpen
) -> list[tuple[MapKey, Intent]]:
    """Return the map's records of the open transaction."""
    target, intents = task.links.target, []
    signatures = Signatures(target.control, left.at)
    tail = LogTail(target, left.at, lambda _record: None, signatures=signatures, topic=topic)
    tail.next_offset = left.state.open_since
    try:
        await tail.to_end(target)
    except NoAnswerYet as error:
        raise RawError(f"{left.at}: {error}") from error
    for record in tail.undecided:
        with suppress(ValueError):
            decoded = decode_record(record.key, record.value)
            if isinstance(decoded.record, Intent) and decoded.record.mode is Mode.BULK:
                intents.append((decoded.where, decoded.record))
    return intents


async def _is_committed(
    task: TaskContext, p: PartitionCopy, node: int, left: LeftOpen, intent: Intent
) -> bool:
    if node < 0:
        raise RawError(f"{p.target} has no leader")
    if p.target in await _open(task, left.producer_id, {p.target: node}):
        return False
    start = intent.downstream
    batches = await scan(task.links.target, node, p.target, p.target_id, start, start + 1)
    return any(b.base == start and b.producer_id == left.producer_id and not b.aborted for b in batches)
