"""Target records of other producers: they are reported, or, after a turn, stop their partition.

On a former primary such a record comes from a client that was not cut off. The map never skips it: its
partition stops before it (decision 32). A transaction that is still open may be aborted, and then no
consumer ever sees its records; so the partition waits for its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drkit.clock import wall_ms
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy
from drkit.flow_state.records import WrittenRecord
from drkit.kafka.requests import LATEST, ProducerState, describe_producers, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.settling import Settled
from drkit.offsets.resolution import Foreign, Resolution
from drkit.offsets.takeup import FROZEN_EPOCH

KIND: Final = "returning_side_written"
REASON: Final = "another producer has written to the passive side since the turn"
_PAUSE_SECONDS: Final = 0.1
_UNKNOWN: Final = -1


def stranger_in(resolution: Resolution, own: frozenset[int], stable: int) -> tuple[Foreign, bool] | None:
    """Return the foreign record that stops a partition or makes it wait, or None.

    A visible one counts before one that is undecided. False beside it: its transaction may be aborted.

    :param own: every producer id of this flow
    :param stable: the last stable offset, asked before the log was read; negative: unknown
    """
    foreign = [f for f in resolution.foreign if f.producer_id not in own]
    visible = [f for f in foreign if not f.transactional or f.base < stable]
    if visible:
        return visible[0], True
    return (foreign[0], False) if foreign else None


def stop_written(task: TaskContext) -> None:
    """Stop the partitions to which another client wrote, by the lease."""
    for p in task.partitions:
        if p.lease.written_at is not None:
            task.stop(p, KIND, REASON, offset=p.lease.written_at, began_at=p.lease.skip_from)


async def stable_ends(task: TaskContext, partitions: Iterable[PartitionCopy]) -> dict[TopicPartition, int]:
    """Return the last stable offsets of partitions that began with a turn, as far as brokers answer.

    :raises RawError: a broker does not answer
    """
    by_node: dict[int, list[TopicPartition]] = {}
    for p in partitions:
        if p.lease.returning:
            by_node.setdefault(p.target_leader, []).append(p.target)
    offsets: dict[TopicPartition, int] = {}
    for node, targets in by_node.items():
        answers = await list_offsets(task.links.target, node, dict.fromkeys(targets, LATEST), committed=True)
        offsets |= {tp: a.offset for tp, a in answers.items() if not a.error}
    return offsets


async def without_written(
    task: TaskContext,
    partitions: Sequence[PartitionCopy],
    settled: Mapping[TopicPartition, Settled],
    stable: Mapping[TopicPartition, int],
) -> list[PartitionCopy]:
    """Return the partitions that continue; foreign records stop a partition, undecided ones delay it.

    The stop is durable before anything else is written: retention may delete the record later.

    :param stable: of :func:`stable_ends`, asked before they were settled
    :raises Failed: the flow's state does not take the stop
    """
    continuing = []
    for p in partitions:
        resolution, look = settled[p.target].resolution, settled[p.target].look
        foreign = None
        if p.lease.returning and resolution is not None and not _is_frozen(task, look.producers):
            foreign = stranger_in(resolution, _own(task, p), stable.get(p.target, _UNKNOWN))
        if foreign is None:
            continuing.append(p)
            continue
        stranger, is_visible = foreign
        if not is_visible:
            p.reason = f"a transaction of producer id {stranger.producer_id} is open on the target"
            task.trouble(p, pause=_PAUSE_SECONDS)
        elif await _was_passive(task, p):
            await _stop(task, p, stranger)
        else:
            p.reason = "the target does not say whether it was promoted"
            task.trouble(p, pause=_PAUSE_SECONDS)
    return continuing


def _is_frozen(task: TaskContext, producers: Mapping[int, ProducerState]) -> bool:
    """Return whether a failover has fenced the flow on a partition: clients may write there since then."""
    producer = producers.get(task.lease.producer_id)
    return producer is not None and producer.epoch >= FROZEN_EPOCH


async def _was_passive(task: TaskContext, p: PartitionCopy) -> bool:
    """Return whether the partition was passive when its log was read: a task may pause between requests.

    :raises RawError: a broker does not answer
    """
    answers = await describe_producers(task.links.target, p.target_leader, [p.target])
    error, producers = answers[p.target]
    return not error and not task.expired and not _is_frozen(task, producers)


async def _stop(task: TaskContext, p: PartitionCopy, first: Foreign) -> None:
    written = WrittenRecord(
        p.source_id, p.target_id, first.base, first.producer_id, wall_ms(), p.lease.skip_from
    )
    await task.write_state(written, WrittenRecord.name_of(p.source))
    task.stop(
        p, KIND, REASON, offset=first.base, producer_id=first.producer_id, began_at=p.lease.skip_from
    )  # fmt: skip


def _own(task: TaskContext, p: PartitionCopy) -> frozenset[int]:
    bulk = task.transactions[p.lease.bucket].identity.id
    return frozenset({bulk, *task.lease.own_producer_ids, *(task.lease.bulk_producer_ids or ())})


def report(task: TaskContext, p: PartitionCopy, resolution: Resolution) -> None:
    """Report records of other producers, which the map skips."""
    if resolution.first_foreign:
        reason = "the target partition held records before the first copy"
        task.emit("foreign_writer", p, target_end=resolution.downstream, reason=reason)
    elif resolution.foreign:
        first = resolution.foreign[0]
        records = sum(f.records for f in resolution.foreign)
        task.emit(
            "foreign_writer", p, offset=first.base, producer_id=first.producer_id, records=records
        )  # fmt: skip
