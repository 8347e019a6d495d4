"""Brings partitions from RESOLVING to work: asks the target where they stand, repairs the map."""

from __future__ import annotations

from collections.abc import Sequence
import time

from drkit.errors import Failed
from drkit.kafka.raw import RawError
from drkit.kafka.requests import EARLIEST, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offsets import Intent, MapKey, MapRecord, Mark
from drkit.offsets.map_record import SEQUENCE_MODULUS, Mode
from drkit.offsets.resolve import Piece, Resolution
from drkit.replicate.context import TaskContext, error_name, reason_of
from drkit.replicate.packing import pack
from drkit.replicate.partition import PartitionCopy, State
from drkit.replicate.resume import Settled, Wanted, settle

_IDLE_SECONDS = 0.25
_MISSING = frozenset({3, 100})
_NOT_AUTHORIZED = 29
_PAUSE_SECONDS = 0.1


class Resolver:
    """Watches for partitions that must be resolved and settles them together."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task

    async def run(self) -> None:
        """Resolve until the epoch ends."""
        task = self._task
        while not task.ending:
            due = [p for p in task.partitions if _due(p)]
            if not due:
                await task.changed.wait(_IDLE_SECONDS)
                continue
            try:
                await self.resolve(due)
            except (RawError, Failed) as error:
                self._again(due, error)

    async def begin(self) -> None:
        """Settle all partitions for the first time; a broker that goes away meanwhile is asked again later.

        :raises Failed: the offset map cannot be read
        """
        try:
            await self.resolve(self._task.partitions)
        except RawError as error:
            self._again(self._task.partitions, error)

    def _again(self, due: Sequence[PartitionCopy], error: BaseException) -> None:
        for p in due:
            p.reason = reason_of(error)
            self._task.trouble(p, pause=_PAUSE_SECONDS)

    async def resolve(self, due: Sequence[PartitionCopy]) -> None:
        """Settle some partitions and let them begin.

        :raises RawError: a broker stopped answering; all of them are to be tried again
        """
        task = self._task
        due = await self._known_targets(due)
        buckets = sorted({p.lease.bucket for p in due})

        async def read_map() -> None:
            topic = await task.internal(task.lease.map_topic, refresh=True)
            for bucket in buckets:
                await task.buckets[bucket].read(task.links.target, task.lease.map_topic, topic)

        wanted = [self._wanted(p) for p in due]
        settled = await settle(task.links.target, task.targets, wanted, read_map)
        due = [p for p in due if self._is_sure(p)]
        starts = await self._source_starts([p for p in due if _never_copied(settled[p.target])])
        for p in due:
            _start_over(settled[p.target].resolution, starts.get(p.source))
        await self._repair(due, settled)
        await pack(task, due, settled)
        for p in due:
            self._begin(p, settled[p.target], starts)
        task.changed.set()

    def _wanted(self, p: PartitionCopy) -> Wanted:
        state = self._task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
        bulk_id = self._task.transactions[p.lease.bucket].identity.id
        own = frozenset(self._task.lease.own_producer_ids)
        return Wanted(p.target, state, own, self._task.lease.producer_id, bulk_id)

    def _is_sure(self, p: PartitionCopy) -> bool:
        """Stop a partition of whose map something was overwritten: nobody knows where it stands."""
        doubt = self._task.buckets[p.lease.bucket].doubt(self._task.lease.map_topic, p.key)
        if doubt:
            copy = p.target.topic
            hint = f'to copy the topic anew: delete {copy}, with on_target_deleted = "new_generation"'
            self._task.stop(p, "map_unreadable", doubt, hint=hint)
        return not doubt

    async def _known_targets(self, due: Sequence[PartitionCopy]) -> list[PartitionCopy]:
        """Refresh the targets' leaders; stop what is no longer the topic we were leased."""
        task = self._task
        found = await metadata(task.links.target, sorted({p.target.topic for p in due}))
        task.targets.update(found)
        out = []
        for p in due:
            topic = found[p.target.topic]
            leader = topic.leaders.get(p.target.partition)
            if topic.error in _MISSING:
                task.stop(
                    p, "target_deleted", "the target topic was deleted", evidence=error_name(topic.error)
                )
            elif topic.error == _NOT_AUTHORIZED:
                task.stop(
                    p, "partition_stopped", "no permission on the target topic", evidence=error_name(29)
                )
            elif not topic.error and topic.topic_id != p.target_id:
                task.stop(
                    p,
                    "target_deleted",
                    "the target topic was deleted and created again",
                    old_id=str(p.target_id),
                    new_id=str(topic.topic_id),
                )
            elif leader is None or leader.node < 0:
                p.reason = "the target partition has no leader"
                task.trouble(p, pause=_PAUSE_SECONDS)
            else:
                p.target_leader = leader.node
                out.append(p)
        return out

    async def _source_starts(self, fresh: list[PartitionCopy]) -> dict[TopicPartition, int]:
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for p in fresh:
            by_node.setdefault(p.leader, {})[p.source] = EARLIEST
        out: dict[TopicPartition, int] = {}
        for node, wanted in by_node.items():
            if node >= 0:
                answers = await list_offsets(self._task.links.source, node, wanted, committed=False)
                out.update({tp: a.offset for tp, a in answers.items() if not a.error})
        return out

    async def _repair(self, due: list[PartitionCopy], settled: dict[TopicPartition, Settled]) -> None:
        """Write down what only this look at the log has confirmed, before anything is appended."""
        by_bucket: dict[int, list[tuple[MapKey, MapRecord]]] = {}
        for p in due:
            found = settled[p.target].resolution
            if found is not None and (found.repairs or (found.foreign and found.upstream is not None)):
                records = self._repairs(p, found)
                by_bucket.setdefault(p.lease.bucket, []).extend((p.key, r) for r in records)
        for bucket, batch in by_bucket.items():
            await self._task.write_map(bucket, batch)

    def _repairs(self, p: PartitionCopy, found: Resolution) -> list[Intent | Mark]:
        task = self._task
        out: list[Intent | Mark] = []
        previous = found.repair_from
        total = sum(piece.records for piece in found.repairs)
        sequence = (found.sequence - total) % SEQUENCE_MODULUS
        for piece in found.repairs:
            out.append(
                Intent(
                    Mode.REPAIR,
                    task.nonce,
                    task.lease.producer_id,
                    task.lease.producer_epoch,
                    sequence,
                    piece.downstream,
                    previous,
                    found.leader_epoch,
                    (),
                    ((piece.upstream, piece.records),),
                )
            )
            sequence = (sequence + piece.records) % SEQUENCE_MODULUS
            previous = piece.downstream + piece.records
        if found.foreign:
            # What stands behind the last of ours was looked at; nobody needs to look again.
            out.append(
                Mark(
                    p.nonce(task.nonce),
                    found.upstream or 0,
                    found.downstream,
                    found.copied_end,
                    found.sequence,
                    found.leader_epoch,
                )
            )
        return out

    def _begin(self, p: PartitionCopy, settled: Settled, starts: dict[TopicPartition, int]) -> None:
        task, found = self._task, settled.resolution
        if p.state is not State.RESOLVING:
            return
        if settled.producer_epoch is not None and settled.producer_epoch > task.lease.producer_epoch:
            task.stop(
                p,
                "own_epoch_refused",
                "this flow's producer was fenced on the target",
                our_epoch=task.lease.producer_epoch,
                broker_epoch=settled.producer_epoch,
            )
            return
        upstream = starts.get(p.source) if found is not None and found.upstream is None else None
        if found is not None and found.upstream is not None:
            upstream = found.upstream
        if found is None or upstream is None:
            p.reason = error_name(settled.error) if settled.error else "the source has no leader for it"
            task.trouble(p, pause=_PAUSE_SECONDS)
            return
        self._tell(p, found)
        epoch = found.leader_epoch
        if p.rewind_to is not None:
            # Asking with the epoch of the lost tail would be answered with the same divergence for ever.
            upstream, epoch = min(upstream, p.rewind_to[0]), p.rewind_to[1]
            p.rewind_to = None
        delta = found.segments.delta() if found.copied_end == found.downstream else None
        p.begin(
            upstream=upstream,
            downstream=found.downstream,
            copied_end=found.copied_end,
            sequence=found.sequence,
            delta=delta,
            leader_epoch=epoch,
        )
        task.offer(p)

    def _tell(self, p: PartitionCopy, found: Resolution) -> None:
        if found.truncated_from is not None:
            self._task.emit(
                "target_truncated",
                p,
                copied_up_to=found.truncated_from,
                target_end=found.downstream,
                resumed_at=found.upstream,
            )
        if found.first_foreign:
            self._task.emit(
                "foreign_writer",
                p,
                target_end=found.downstream,
                reason="the target partition held records before the first copy",
            )
        elif found.foreign:
            first = found.foreign[0]
            self._task.emit(
                "foreign_writer",
                p,
                offset=first.base,
                producer_id=first.producer_id,
                records=sum(f.records for f in found.foreign),
            )


def _due(p: PartitionCopy) -> bool:
    return p.state is State.RESOLVING and p.in_flight == 0 and time.monotonic() >= p.retry_at


def _start_over(found: Resolution | None, start: int | None) -> None:
    """The target lost all that was copied: say so in the map, or the next look finds the old claims."""
    if found is not None and found.truncated_from is not None and found.upstream is None:
        found.upstream = start
        found.repairs = [] if start is None else [Piece(start, found.downstream, 0)]


def _never_copied(settled: Settled) -> bool:
    return settled.resolution is not None and settled.resolution.upstream is None
