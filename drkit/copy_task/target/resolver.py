"""Resolve partitions: read their position from the target, repair the map, fence earlier writers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
import time

from drkit.copy_task.core.context import TaskContext, error_name
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.target import foreign
from drkit.copy_task.target.left_open import end_on_targets
from drkit.copy_task.target.take_up import TakeUp, take_up
from drkit.errors import Failed
from drkit.flow_state.topic import HOW_TO_ADOPT
from drkit.kafka.codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NO_SUCH_TOPIC,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
)
from drkit.kafka.raw import RawError
from drkit.kafka.requests import EARLIEST, list_offsets, metadata
from drkit.kafka.transactions import Marker, write_markers
from drkit.model import TopicPartition
from drkit.offset_map.bucket import Pair, pairs, parts
from drkit.offset_map.reading import read_on
from drkit.offset_map.settling import Settled, Wanted, settle
from drkit.offset_map.topic import new_nonce
from drkit.offsets import History, MapKey, MapRecord, PartitionMap, Unavailable, encode_intent
from drkit.offsets.history import steps
from drkit.offsets.map_codec import place, turned_to
from drkit.offsets.resolution import Resolution
from drkit.offsets.takeup import Author, Fence, Frozen, Go, TurnTo, mark_of

PACK_AT = 256
"""Intents of one partition in the map topic from which on they are packed."""
_TOMBSTONES = 4096


async def pack(task: TaskContext, settled: Iterable[tuple[PartitionCopy, Resolution, Author]]) -> None:
    """Compact the maps of partitions with many records, and drop what precedes the target's log start.

    A plain topic needs one segment forever, a transactional source one per marker.

    :raises Failed: the map topic does not accept the records
    """
    for p, result, author in settled:
        stored_keys = task.buckets[p.lease.bucket].keys.get(p.key, {})
        if result.upstream is None or result.history is None or result.foreign or len(stored_keys) < PACK_AT:
            continue
        starts = await list_offsets(task.links.target, p.target_leader, {p.target: EARLIEST}, committed=False)
        if starts[p.target].error:
            continue
        result.segments.trim(starts[p.target].offset)
        state = task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)
        batches, tombstones = pack_of(p.key, state, result, author, list(stored_keys))
        for batch in batches:
            await task.write_map(p.lease.bucket, batch)
        for i in range(0, len(tombstones), _TOMBSTONES):
            await task.write_map(p.lease.bucket, tombstones[i : i + _TOMBSTONES])


def pack_of(
    key: MapKey, state: PartitionMap, resolution: Resolution, author: Author, stored_keys: Iterable[bytes]
) -> tuple[list[list[Pair]], list[Pair]]:
    """Return the batches of a pack, and the tombstones of the records that it replaces.

    Claims that reach further stay, and so does the last turn, which names the ended histories.

    :param stored_keys: keys of the partition's intents, turns and packs
    """
    history = resolution.history or History(-1, -1)
    mark = mark_of(resolution, history, author)
    batches: list[list[Pair]] = []
    for part in parts(resolution.segments, resolution.downstream):
        # The last part and the mark share a batch, so they take effect together.
        last = part.part + 1 == part.parts
        records: list[MapRecord] = [part, mark] if last else [part]
        batches.append(pairs((key, r) for r in records))
    retained = {
        encode_intent(key, c)[0]
        for c in state.pending
        if c.history == history and steps(c.base_sequence, resolution.sequence) + c.count > 0
    }
    tombstones: list[Pair] = [
        (k, None)
        for k in stored_keys
        if k not in retained and place(k) < resolution.downstream and turned_to(k) != history
    ]
    return batches, tombstones


_IDLE_SECONDS = 0.25
_PAUSE_SECONDS = 0.1


class PartitionResolver:
    """Watches for partitions that must be resolved and settles them together."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task

    async def run(self) -> None:
        """Resolve until the epoch ends."""
        task = self._task
        while not task.ending:
            due = (p for p in task.partitions if p.answered and time.monotonic() >= p.retry_at)
            to_resolve = [p for p in due if p.state is CopyState.RESOLVING]
            if not to_resolve:
                await task.changed.wait(_IDLE_SECONDS)
                continue
            try:
                await self.resolve(to_resolve)
            except Failed as error:
                self._retry_later(to_resolve, error)

    async def begin(self) -> None:
        """Settle all partitions for the first time; those of a broker that fails are retried later.

        :raises Failed: the offset map cannot be read
        """
        foreign.stop_written(self._task)
        partitions = [p for p in self._task.partitions if p.state is not CopyState.STOPPED]
        try:
            await self.resolve(partitions)
        except RawError as error:
            self._retry_later(partitions, error)

    def _retry_later(self, to_resolve: Sequence[PartitionCopy], error: BaseException) -> None:
        for p in to_resolve:
            p.reason = str(error)
            self._task.trouble(p, pause=_PAUSE_SECONDS)

    async def resolve(self, to_resolve: Sequence[PartitionCopy]) -> None:
        """Settle some partitions and let them begin.

        :raises RawError: a broker stopped answering; all of them are to be tried again
        """
        task = self._task
        to_resolve = await self._known_targets(to_resolve)
        buckets = sorted({p.lease.bucket for p in to_resolve})

        async def read_map() -> None:
            topic = await task.internal(task.lease.map_topic, refresh=True)
            unread = [task.buckets[bucket] for bucket in buckets]
            await task.loop.together(partial(read_on, task.links.target, topic), unread)

        requests = [self._settle_request(p) for p in to_resolve]
        stable = await foreign.stable_ends(task, to_resolve)
        settled = await settle(task.links.target, task.targets, requests, read_map)
        if not all(task.maps[bucket].holds for bucket in buckets):
            task.finish("fenced")
            return
        timed_out = [p for p in to_resolve if settled[p.target].error == REQUEST_TIMED_OUT]
        if timed_out:
            await end_on_targets(task, timed_out)
        to_resolve = [p for p in to_resolve if self._has_exact_answer(p, settled[p.target])]
        to_resolve = await foreign.without_written(task, to_resolve, settled, stable)
        starts = await self._source_starts([p for p in to_resolve if _needs_start(p, settled[p.target])])
        take_ups = [t for p in to_resolve if (t := self._take_up(p, settled[p.target], starts)) is not None]
        for taken in take_ups:
            if isinstance(taken.move, TurnTo):  # the answer to an earlier fence was lost
                await self._name_loss(taken)
        await self._write(take_ups)
        await pack(task, [(t.p, t.found, self._author(t)) for t in take_ups if isinstance(t.move, Go)])
        await self._fence([(t, t.move) for t in take_ups if isinstance(t.move, Fence)])
        for taken in take_ups:
            self._begin(taken)
        task.changed.set()

    def _settle_request(self, p: PartitionCopy) -> Wanted:
        bulk_id = self._task.transactions[p.lease.bucket].identity.id
        known = frozenset({bulk_id, *(self._task.lease.bulk_producer_ids or ())})
        own = frozenset(self._task.lease.own_producer_ids)
        return Wanted(
            p.target, self._map_state(p), own, bulk_id, p.target_epoch, known,
            began_at=p.lease.began_at, emptied=p.lease.emptied_to, tail_end=p.lease.tail_end,
            doubt=partial(self._task.buckets[p.lease.bucket].doubt, p.key),
        )  # fmt: skip

    def _has_exact_answer(self, p: PartitionCopy, settled: Settled) -> bool:
        """Stop a partition whose map is damaged; retry one whose log gives no exact answer yet."""
        bucket = self._task.buckets[p.lease.bucket]
        doubt = bucket.doubt(p.key, settled.resolution)
        if doubt is not None:
            again = f'delete {p.target.topic}, with on_target_deleted = "new_generation"'
            hint = HOW_TO_ADOPT if bucket.lacks_mac(p.key) else f"to copy the topic from the start: {again}"
            self._task.stop(p, "map_unreadable", doubt.reason, hint=hint)
            return False
        if isinstance(settled.answer, Unavailable):
            # A former leader may seem to have lost records: a later read may reach its successor.
            p.reason = settled.answer.reason
            self._task.trouble(p, pause=_PAUSE_SECONDS)
            return False
        return True

    async def _known_targets(self, to_resolve: Sequence[PartitionCopy]) -> list[PartitionCopy]:
        """Refresh the targets' leaders; stop partitions whose topic is no longer the assigned one."""
        task = self._task
        topics = await metadata(task.links.target, sorted({p.target.topic for p in to_resolve}))
        task.targets.update(topics)
        current = []
        for p in to_resolve:
            topic = topics[p.target.topic]
            leader = topic.leaders.get(p.target.partition)
            if topic.error in NO_SUCH_TOPIC:
                evidence = error_name(topic.error)
                task.stop(p, "target_deleted", "the target topic was deleted", evidence=evidence)
            elif topic.error == TOPIC_AUTHORIZATION_FAILED:
                evidence = error_name(topic.error)
                task.stop(p, "partition_stopped", "no permission on the target topic", evidence=evidence)
            elif not topic.error and topic.topic_id != p.target_id:
                ids = {"old_id": str(p.target_id), "new_id": str(topic.topic_id)}
                task.stop(p, "target_deleted", "the target topic was deleted and created again", **ids)
            elif leader is None or leader.node < 0:
                p.reason = "the target partition has no leader"
                task.trouble(p, pause=_PAUSE_SECONDS)
            else:
                p.target_leader = leader.node
                current.append(p)
        return current

    async def _source_starts(self, fresh: list[PartitionCopy]) -> dict[TopicPartition, int]:
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for p in fresh:
            by_node.setdefault(p.leader, {})[p.source] = EARLIEST
        starts: dict[TopicPartition, int] = {}
        for node, requests in by_node.items():
            if node >= 0:
                answers = await list_offsets(self._task.links.source, node, requests, committed=False)
                starts.update({tp: a.offset for tp, a in answers.items() if not a.error})
        return starts

    def _take_up(
        self, p: PartitionCopy, settled: Settled, starts: Mapping[TopicPartition, int]
    ) -> TakeUp | None:
        """Return the next move for a settled partition, or None if it is retried or stopped."""
        task, resolution = self._task, settled.resolution
        if p.state is not CopyState.RESOLVING:
            return None
        if resolution is None:
            p.reason = error_name(settled.error)
            task.trouble(p, pause=_PAUSE_SECONDS)
            return None
        taken = take_up(
            p, self._map_state(p), resolution, settled.look, reign=task.maps[p.lease.bucket].reign,
            lease=History(task.lease.producer_id, task.lease.producer_epoch), start=starts.get(p.source),
        )  # fmt: skip
        if isinstance(taken.move, Frozen):
            reason = "this flow's producer was fenced on the target"
            task.stop(p, "own_epoch_refused", reason, broker_epoch=taken.move.epoch)
            return None
        if taken.upstream is None and not isinstance(taken.move, Fence):
            p.reason = "the source has no leader for it"
            task.trouble(p, pause=_PAUSE_SECONDS)
            return None
        return taken

    def _map_state(self, p: PartitionCopy) -> PartitionMap:
        return self._task.buckets[p.lease.bucket].of(p.source_id, p.target_id, p.target.partition)

    def _author(self, taken: TakeUp) -> Author:
        reign = self._task.maps[taken.p.lease.bucket].reign
        return Author(new_nonce() >> 1, reign.number, taken.look.leader_epoch)

    async def _write(self, take_ups: Iterable[TakeUp]) -> None:
        """Write the positions that only this read of the log confirms, before anything is appended."""
        by_bucket: dict[int, list[tuple[MapKey, MapRecord]]] = {}
        for taken in take_ups:
            records = [(taken.p.key, r) for r in taken.records(self._author(taken))]
            by_bucket.setdefault(taken.p.lease.bucket, []).extend(records)
        for bucket, batch in by_bucket.items():
            if batch:
                await self._task.write_map(bucket, pairs(batch))

    async def _fence(self, take_ups: Iterable[tuple[TakeUp, Fence]]) -> None:
        """Make leaders refuse appends that may still be in flight; then the partitions are settled again.

        :raises RawError: a broker does not answer
        """
        task = self._task
        by_node: dict[int, list[tuple[TakeUp, Fence]]] = {}
        for taken, fence in take_ups:
            by_node.setdefault(taken.p.target_leader, []).append((taken, fence))
        for node, fences in by_node.items():
            codes = await write_markers(task.links.target, node, [_marker(*f) for f in fences])
            for taken, fence in fences:
                p, code = taken.p, codes.get((fence.producer_id, taken.p.target), -1)
                if code == CLUSTER_AUTHORIZATION_FAILED:
                    reason = f"{fence.reason}, and drkit may not fence its earlier appends"
                    task.stop_unfenced(p, reason)
                    continue
                if not code:
                    await self._name_loss(taken)
                    records = taken.records_behind_fence(self._author(taken))
                    await task.write_map(p.lease.bucket, pairs((p.key, r) for r in records))
                    task.emit("history_ended", p, reason=fence.reason, producer_epoch=fence.epoch)
                p.reason = error_name(code) if code else fence.reason
                p.retry_at = time.monotonic() + (_PAUSE_SECONDS if code else 0.0)

    def _begin(self, taken: TakeUp) -> None:
        if taken.p.state is not CopyState.RESOLVING or not taken.may_begin:
            return
        foreign.report(self._task, taken.p, taken.found)
        taken.begin()
        self._task.offer(taken.p)

    async def _name_loss(self, taken: TakeUp) -> None:
        """Report lost target records durably: after the map's next record they cannot be detected again."""
        p, resolution = taken.p, taken.found
        if resolution.truncated_from is None or resolution.truncated_from == p.named_loss:
            return
        lost_from, end, resumed_at = resolution.truncated_from, resolution.downstream, resolution.upstream
        ends = {"target_end": end, "resumed_at": resumed_at}
        await self._task.emit("target_truncated", p, copied_up_to=lost_from, **ends)
        p.named_loss = lost_from


def _needs_start(p: PartitionCopy, settled: Settled) -> bool:
    return settled.resolution is not None and settled.resolution.upstream is None and p.rewind_to is None


def _marker(taken: TakeUp, fence: Fence) -> Marker:
    producer = taken.look.producers.get(fence.producer_id)
    coordinator = max(0, producer.coordinator_epoch) if producer is not None else 0
    return Marker(fence.producer_id, fence.epoch, coordinator, (taken.p.target,))
