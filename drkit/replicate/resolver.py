"""Brings partitions from RESOLVING to work: asks the target where they are, writes down what only its log says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import time
from typing import NamedTuple

from drkit.errors import Failed
from drkit.kafka.markers import Marker, write_markers
from drkit.kafka.raw import RawError
from drkit.kafka.requests import EARLIEST, list_offsets, metadata
from drkit.model import TopicPartition
from drkit.offset_map.look import Look
from drkit.offset_map.reading import read_on
from drkit.offset_map.settle import Settled, Wanted, settle
from drkit.offsets import History, MapKey, MapRecord, Unavailable
from drkit.offsets.resolve import Resolution
from drkit.offsets.takeup import (
    Author,
    Fence,
    Frozen,
    Go,
    Leader,
    Move,
    TurnTo,
    next_move,
    settled_records,
    turn_records,
)
from drkit.replicate.context import TaskContext, error_name, reason_of
from drkit.replicate.packing import pack
from drkit.replicate.partition import PartitionCopy, State

_IDLE_SECONDS = 0.25
_MISSING = frozenset({3, 100})
_NOT_AUTHORIZED = 29
_CLUSTER_AUTHORIZATION_FAILED = 31
_PAUSE_SECONDS = 0.1
_COMPACTED = "the source is compacted: it may hold fewer records than when another task read it"
_REWOUND = "the source has lost records that were copied"
_GAP = "the source has removed records before they were copied"


class _Found(NamedTuple):
    """A partition, where it is, and what may be done."""

    p: PartitionCopy
    resolution: Resolution
    look: Look
    upstream: int | None
    """Where copying goes on; None: the source has not said where it begins."""
    leader_epoch: int
    move: Move


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
                await read_on(task.links.target, topic, task.buckets[bucket])

        wanted = [self._wanted(p) for p in due]
        settled = await settle(task.links.target, task.targets, wanted, read_map)
        if not all(task.maps[bucket].holds for bucket in buckets):
            task.finish("fenced")
            return
        due = [p for p in due if self._is_sure(p, settled[p.target])]
        starts = await self._source_starts([p for p in due if _needs_start(p, settled[p.target])])
        found = [f for p in due if (f := self._found(p, settled[p.target], starts)) is not None]
        await self._write(found)
        await pack(task, [(f.p, f.resolution, self._author(f)) for f in found if isinstance(f.move, Go)])
        await self._fence([f for f in found if isinstance(f.move, Fence)])
        for f in found:
            self._begin(f)
        task.changed.set()

    def _wanted(self, p: PartitionCopy) -> Wanted:
        state = self._task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
        bulk_id = self._task.transactions[p.lease.bucket].identity.id
        return Wanted(p.target, state, frozenset(self._task.lease.own_producer_ids), bulk_id)

    def _is_sure(self, p: PartitionCopy, settled: Settled) -> bool:
        """Stop a partition of whose place the map and the log give no exact answer."""
        doubt = self._task.buckets[p.lease.bucket].doubt(p.key)
        if doubt is None and isinstance(settled.answer, Unavailable):
            doubt = settled.answer
        if doubt is not None:
            copy = p.target.topic
            hint = f'to copy the topic anew: delete {copy}, with on_target_deleted = "new_generation"'
            self._task.stop(p, "map_unreadable", doubt.reason, hint=hint)
        return doubt is None

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

    # -- what to do with each ------------------------------------------------------------------------

    def _found(
        self, p: PartitionCopy, settled: Settled, starts: Mapping[TopicPartition, int]
    ) -> _Found | None:
        """What may be done with a settled partition; None: it is asked again, or it is stopped."""
        task, found = self._task, settled.resolution
        if p.state is not State.RESOLVING:
            return None
        if found is None:
            p.reason = error_name(settled.error)
            task.trouble(p, pause=_PAUSE_SECONDS)
            return None
        p.target_epoch = settled.look.leader_epoch
        p.inherited = self._is_inherited(p, found)
        lease = History(task.lease.producer_id, task.lease.producer_epoch)
        current = (found.history or lease).producer_id
        leader = Leader(settled.look.producer_epoch(current), settled.look.untouched(current))
        move = next_move(found, lease, leader, contested=p.contested, deviation=_deviation(p))
        if isinstance(move, Frozen):
            task.stop(
                p,
                "own_epoch_refused",
                "this flow's producer was fenced on the target",
                broker_epoch=move.epoch,
            )
            return None
        upstream, epoch = _goes_on(p, found, starts.get(p.source))
        if upstream is None and not isinstance(move, Fence):
            p.reason = "the source has no leader for it"
            task.trouble(p, pause=_PAUSE_SECONDS)
            return None
        return _Found(p, found, settled.look, upstream, epoch, move)

    def _is_inherited(self, p: PartitionCopy, found: Resolution) -> bool:
        """Whether an earlier task may still append here: it did not end cleanly since the last turn."""
        state = self._task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
        unclean = self._task.maps[p.lease.bucket].reign.unclean
        # Where nothing is live and nothing is claimed, the first append needs a claim that would be here.
        works = bool(state.pending) or (state.tail is not None and state.tail.live) or bool(found.repairs)
        return works and unclean > 0 and unclean >= state.turned

    def _author(self, f: _Found) -> Author:
        reign = self._task.maps[f.p.lease.bucket].reign
        return Author(self._task.nonce, reign.number, f.look.leader_epoch)

    async def _write(self, found: Iterable[_Found]) -> None:
        """Write down what only this look at the log has confirmed, before anything is appended."""
        by_bucket: dict[int, list[tuple[MapKey, MapRecord]]] = {}
        for f in found:
            author = self._author(f)
            records: list[MapRecord] = []
            if isinstance(f.move, TurnTo) and f.upstream is not None:
                records = turn_records(f.resolution, f.move, f.upstream, f.leader_epoch, author)
            elif not isinstance(f.move, Fence) and f.resolution.history is not None:
                records = settled_records(f.resolution, f.resolution.history, author)
            by_bucket.setdefault(f.p.lease.bucket, []).extend((f.p.key, r) for r in records)
        for bucket, batch in by_bucket.items():
            if batch:
                await self._task.write_map(bucket, batch)

    async def _fence(self, found: Iterable[_Found]) -> None:
        """Make leaders refuse what may still be on its way; the partitions are settled once more then.

        :raises RawError: a broker does not answer
        """
        by_node: dict[int, list[_Found]] = {}
        for f in found:
            by_node.setdefault(f.p.target_leader, []).append(f)
        for node, some in by_node.items():
            codes = await write_markers(self._task.links.target, node, [_marker(f) for f in some])
            for f in some:
                assert isinstance(f.move, Fence)
                code = codes.get((f.move.producer_id, f.p.target), -1)
                if code == _CLUSTER_AUTHORIZATION_FAILED:
                    self._task.stop(
                        f.p, "fence_refused", f"{f.move.reason}, and drkit may not fence its earlier appends",
                        evidence=error_name(code), hint="grant ALTER on the target cluster to drkit's principal",
                    )  # fmt: skip
                    continue
                self._task.emit("history_ended", f.p, reason=f.move.reason, epoch=f.move.epoch)
                f.p.reason = error_name(code) if code else f.move.reason
                f.p.retry_at = time.monotonic() + (_PAUSE_SECONDS if code else 0.0)

    def _begin(self, f: _Found) -> None:
        p, found = f.p, f.resolution
        if p.state is not State.RESOLVING or not isinstance(f.move, Go | TurnTo) or f.upstream is None:
            return
        self._report(p, found)
        turned = isinstance(f.move, TurnTo)
        if turned:
            p.lost = False
        at_end = found.copied_end == found.downstream and not turned
        p.begin(
            upstream=f.upstream,
            downstream=found.downstream,
            copied_end=found.copied_end,
            sequence=0 if turned else found.sequence,
            delta=found.segments.delta() if at_end else None,
            leader_epoch=f.leader_epoch,
            history=f.move.history,
            inherited=p.inherited and not turned,
            target_epoch=f.look.leader_epoch,
        )
        self._task.offer(p)

    def _report(self, p: PartitionCopy, found: Resolution) -> None:
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


def _needs_start(p: PartitionCopy, settled: Settled) -> bool:
    return settled.resolution is not None and settled.resolution.upstream is None and p.rewind_to is None


def _deviation(p: PartitionCopy) -> str:
    if p.deviation:
        return p.deviation
    if p.rewind_to is not None:
        return _REWOUND
    if p.skip_to >= 0:
        return _GAP
    return _COMPACTED if p.lease.compacted else ""


def _goes_on(p: PartitionCopy, found: Resolution, start: int | None) -> tuple[int | None, int]:
    """Source offset and leader epoch at which copying goes on."""
    upstream, epoch = found.upstream if found.upstream is not None else start, found.leader_epoch
    if p.rewind_to is not None:
        # Asking with the epoch of the lost tail would be answered with the same divergence for ever.
        end, epoch = p.rewind_to
        upstream = end if upstream is None else min(upstream, end)
    if upstream is not None and upstream < p.skip_to:
        upstream = p.skip_to
    return upstream, epoch


def _marker(f: _Found) -> Marker:
    assert isinstance(f.move, Fence)
    known = f.look.producers.get(f.move.producer_id)
    coordinator = max(0, known.coordinator_epoch) if known is not None else 0
    return Marker(f.move.producer_id, f.move.epoch, coordinator, (f.p.target,))
