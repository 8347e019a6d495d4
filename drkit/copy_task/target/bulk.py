"""Bulk mode: old records in ordinary transactions, together with their offset map.

The broker forgets a producer by the time of its last batch: the sequence is no cursor for older records.
In an open transaction it is kept, and progress commits with the data: a crash leaves a hole, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from drkit.clock import boottime, wall_ms
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import CopyState, PartitionCopy, extend_runs
from drkit.copy_task.target.left_open import end_on_map
from drkit.copy_task.target.live import refused
from drkit.errors import Failed
from drkit.flow_state.records import BulkProducerRecord
from drkit.kafka import codes
from drkit.kafka.appending import append
from drkit.kafka.raw import Future
from drkit.kafka.requests import Append, metadata, produce_request
from drkit.kafka.transactions import TransactionFailed, Transactions, open_in
from drkit.model import TopicPartition
from drkit.offset_map.bucket import batch_of, pairs
from drkit.offsets import Intent, MapKey
from drkit.offsets.map_record import Mode
from drkit.wire import Chunk

GAP: Final = "another producer took offsets of the target"


class Sent(NamedTuple):
    """A chunk in flight inside a transaction; `answer` gives its target offset."""

    partition: PartitionCopy
    generation: int
    chunk: Chunk
    answer: Any

    @property
    def current(self) -> bool:
        """Return whether its partition is still in the same generation."""
        return self.generation == self.partition.generation


Placed = tuple[Sent, int]
"""A chunk and the target offset of its first record."""


def intents_of(placed: Sequence[Placed], nonce: int) -> list[tuple[MapKey, Intent]]:
    """Return one intent per contiguous range of target offsets that holds only records of this flow."""
    intents: list[tuple[MapKey, Intent]] = []
    by_partition: dict[MapKey, list[Placed]] = {}
    for item in placed:
        by_partition.setdefault(item[0].partition.key, []).append(item)
    for key, items in by_partition.items():
        end = items[0][0].partition.acked_own_end
        for stretch in _stretches(items):
            intents.append((key, _intent(stretch, end, nonce)))
            end = stretch[-1][1] + stretch[-1][0].chunk.count
    return intents


def acknowledge(placed: Iterable[Placed]) -> None:
    """Acknowledge the chunks of a committed transaction."""
    for sent, base in placed:
        if sent.current:
            sent.partition.committed(sent.chunk, base)


class ForeignOffsets(NamedTuple):
    """Target offsets between two chunks of this flow that another writer took."""

    partition: PartitionCopy
    offset: int
    offsets: int


async def moved(task: TaskContext, partitions: Collection[PartitionCopy]) -> bool:
    """Return whether the leader of a partition has changed since it was settled.

    Transactional appends are not compared with the log: after an unclean election they would take the
    offsets of lost records.
    """
    topics = await metadata(task.links.target, sorted({p.target.topic for p in partitions}))
    return any(
        (leader := topics[p.target.topic].leaders.get(p.target.partition)) is None
        or leader.epoch != p.target_epoch
        for p in partitions
    )


def gaps_of(
    placed: Sequence[Placed], known: Mapping[TopicPartition, int]
) -> tuple[list[ForeignOffsets], dict[TopicPartition, int]]:
    """Return the offsets that others took between the chunks of a transaction, or since the last one.

    The transaction's own marker takes one offset, after its last chunk and nowhere else.

    :param known: target offset that the next chunk of a partition must get
    :returns: also the next offsets by partition, valid once the transaction is committed
    """
    gaps: list[ForeignOffsets] = []
    ends = dict(known)
    for sent, base in placed:
        expected = ends.get(sent.partition.target, base)
        if base > expected:
            gaps.append(ForeignOffsets(sent.partition, expected, base - expected))
        ends[sent.partition.target] = base + sent.chunk.count
    for target in {sent.partition.target for sent, _ in placed}:
        ends[target] += 1
    return gaps, ends


def _stretches(items: list[Placed]) -> list[list[Placed]]:
    stretches: list[list[Placed]] = []
    end = -1
    for sent, base in items:
        if base != end:
            stretches.append([])
        stretches[-1].append((sent, base))
        end = base + sent.chunk.count
    return stretches


def _intent(stretch: list[Placed], previous_end: int, nonce: int) -> Intent:
    runs: list[tuple[int, int]] = []
    for sent, _ in stretch:
        extend_runs(runs, sent.chunk)
    p = stretch[0][0].partition
    return Intent(
        Mode.BULK, nonce, p.history, base_sequence=p.acked_sequence, downstream=stretch[0][1],
        previous_end=previous_end, leader_epoch=stretch[-1][0].chunk.leader_epoch, runs=tuple(runs),
        target_epoch=p.target_epoch,
    )  # fmt: skip


_IDLE_SECONDS = 0.5
_LINGER_SECONDS = 0.02


class BulkRefused(Exception):
    """A batch inside a transaction was refused: the transaction is aborted, no consumer sees it."""


class BucketFenced(Exception):
    """Another task holds the bucket now, or the coordinator aborted a transaction of this task.

    Only the next epoch may take the bucket again, never a zombie.
    """


class BulkAppender:
    """Writes the partitions of one bucket that are in bulk mode."""

    def __init__(self, task: TaskContext, bucket: int, transactions: Transactions) -> None:
        self._task = task
        self._bucket = bucket
        self._transactions = transactions
        self._partitions = task.in_bucket[bucket]
        self._added: set[TopicPartition] = set()
        self._sent: list[Sent] = []
        self._requests: list[Any] = []
        self._broken = False
        self._recorded: set[int] = set()
        self._ends: dict[TopicPartition, int] = {}
        """Target offset of the next chunk of a partition, unless another writer appends."""
        self.busy = False

    async def run(self) -> None:
        """Copy in transactions until the epoch ends."""
        task = self._task
        while not task.ending:
            if not self._broken and not await self._may_use_producer_id():
                await task.changed.wait(_IDLE_SECONDS)
                continue
            self._move_old_to_bulk()
            if not self._broken and not any(self._ready(p) for p in self._partitions):
                self._return_to_live()
                await task.changed.wait(_IDLE_SECONDS)
                continue
            self.busy = True
            try:
                if self._broken:
                    # At once: no partition of the bucket can be resolved while the lost transaction is open.
                    await self._transactions.begin_epoch()
                    await end_on_map(self._task, self._bucket)
                    self._broken = False
                else:
                    await self._transaction()
            except BucketFenced:
                task.finish("fenced")
            except TransactionFailed as error:
                if error.kafka_code in codes.FENCED:
                    task.finish("fenced")
                self._abort(error)
            except (BulkRefused, Failed) as error:
                self._abort(error)
            finally:
                self.busy = False
                task.changed.set()

    async def _may_use_producer_id(self) -> bool:
        """Return whether this task may write with the bucket's current producer id.

        After some 32,000 InitProducerIds, or a week without one, its transactional id gets another producer
        id. A flow in the other direction must know the new id first: the driver ensures that.
        """
        identity, allowed = self._transactions.identity, self._task.lease.bulk_producer_ids
        if allowed is None or identity.id in allowed:
            return True
        if identity.id not in self._recorded:
            record = BulkProducerRecord(self._bucket)
            try:
                await self._task.write_state(record, str(identity.id))
            except Failed:
                return False
            self._recorded.add(identity.id)
        return False

    def _move_old_to_bulk(self) -> None:
        """Move partitions whose next chunk is old, once their live pipeline is empty."""
        for p in self._partitions:
            is_idle = p.state is CopyState.LIVE and not p.ready and not p.in_flight
            if is_idle and p.oldest_is_older_than(self._task.live_floor_ms(CopyState.LIVE)):
                if p.contested:
                    # The sequence check does not protect a transaction from a late live append.
                    self._task.deviate(p, "old records are copied in transactions")
                    continue
                p.state = CopyState.BULK
                self._ends.pop(p.target, None)
                if p.lease.returning:  # records in between are checked before the first commit
                    self._ends[p.target] = p.acked_downstream

    def _return_to_live(self) -> None:
        """Resolve partitions whose next chunk is recent again, which returns them to live mode."""
        for p in self._partitions:
            if p.state is CopyState.BULK and p.waiting and not self._ready(p):
                p.void()
                self._task.changed.set()

    def _ready(self, p: PartitionCopy) -> bool:
        return p.state is CopyState.BULK and p.oldest_is_older_than(self._task.live_floor_ms(CopyState.BULK))

    async def _await_markers(self) -> None:
        """Wait until the last transaction has its markers: one of the next transaction would end both.

        :raises BulkRefused: a coordinator has left one out; it is written when the partition is resolved
        """
        task, map_topic = self._task, self._task.lease.map_topic
        leaders = {p.target: p.target_leader for p in self._partitions if p.target in self._added}
        map_leader = (await task.internal(map_topic, refresh=False)).leaders[self._bucket]
        leaders[TopicPartition(map_topic, self._bucket)] = map_leader.node
        look = partial(open_in, task.links.target, leaders, {self._transactions.identity.id}, complete=True)
        if opened := await task.loop.until_nothing(look):
            raise BulkRefused(f"a transaction that has ended is open on {opened[0].at}")

    async def _transaction(self) -> None:
        task, flow = self._task, self._task.flow
        self._sent, self._requests, self._added = [], [], set()
        until, size = boottime() + flow.bulk_commit_seconds, 0
        while not task.ending and size < flow.bulk_commit_bytes and boottime() <= until:
            sent_bytes = await self._send_batches()
            size += sent_bytes
            if not sent_bytes:
                if not self._requests or all(r.is_done for r in self._requests):
                    await task.changed.wait(_LINGER_SECONDS)
                    if not any(self._ready(p) for p in self._partitions):
                        break
                else:
                    await self._requests[-1]
        await self._commit()

    async def _send_batches(self) -> int:
        """Send one batch of each partition that has one; returns bytes."""
        task = self._task
        ready = [p for p in self._partitions if self._ready(p)]
        if not ready:
            return 0
        pending = [r for r in self._requests if not r.is_done]
        # No request is retried, so any number may be in flight: a failure ends the transaction.
        if len(pending) >= task.flow.produce_in_flight:
            await pending[0]
        if task.expired:
            task.finish("expired")
            raise BulkRefused
        await self._add_partitions([p.target for p in ready])
        by_node: dict[int, list[Sent]] = {}
        for p in ready:
            if self._ready(p) and p.target.partition >= 0:
                sent = Sent(p, p.generation, p.waiting.popleft(), Future())
                by_node.setdefault(p.target_leader, []).append(sent)
                p.uncommitted += 1
        size = 0
        for node, batches in by_node.items():
            # While another broker's response was awaited, a partition may have been voided.
            current = [s for s in batches if s.current]
            size += await self._send(node, current) if current else 0
        return size

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        new = [p for p in partitions if p not in self._added]
        if not self._added:
            new.append(TopicPartition(self._task.lease.map_topic, self._bucket))
        if new:
            await self._transactions.add(new)
            self._added.update(new)

    async def _send(self, node: int, chunks: list[Sent]) -> int:
        task = self._task
        appends, size = [], 0
        for p, _, chunk, _ in chunks:
            self._transactions.stamp(p.target, chunk.data, chunk.count)
            appends.append(Append(p.target.topic, p.target_id, p.target.partition, chunk.data))
            size += chunk.size
        answers = {(s.partition.target_id, s.partition.target.partition): s.answer for s in chunks}
        self._sent += chunks
        request = produce_request(appends, transactional_id=self._transactions.transactional_id)
        future = await task.links.produce.queue(request, node, task.send_deadline())
        completed = Future()
        future.add_callback(task.guarded(self._answered, answers, completed))
        future.add_errback(task.guarded(self._failed, answers, completed))
        self._requests.append(completed)
        task.counters.requests += 1
        task.counters.batches += len(chunks)
        return size

    @staticmethod
    def _answered(answers: dict[tuple[Any, int], Future], completed: Future, response: Any) -> None:
        for topic in response.responses:
            for r in topic.partition_responses:
                answers[topic.topic_id, r.index].success(r)
        completed.success(None)

    @staticmethod
    def _failed(answers: dict[tuple[Any, int], Future], completed: Future, error: BaseException) -> None:
        for future in answers.values():
            future.failure(error)
        completed.success(None)

    async def _commit(self) -> None:
        if not self._sent:
            return
        placed: list[Placed] = []
        refusal = None
        for sent in self._sent:
            answer = await sent.answer
            if answer.error_code:
                refusal = refusal or (sent, answer)
            placed.append((sent, answer.base_offset))
        if refusal is not None:
            sent, answer = refusal
            if answer.error_code in codes.FENCED:
                raise BucketFenced
            refused(self._task, sent.partition, answer.error_code, len(sent.chunk.data), answer.error_message)
            raise BulkRefused
        if await moved(self._task, {s.partition for s in self._sent}):
            raise BulkRefused
        gaps, ends = gaps_of(placed, self._ends)
        if any(gap.partition.lease.returning for gap in gaps):
            raise BulkRefused(GAP)  # foreign records must be reported before anything after them is committed
        await self._write_progress(placed)
        if self._task.expired or not all(s.current for s, _ in placed):
            raise BulkRefused
        await self._transactions.end(commit=True)
        self._ends = ends
        self._committed(placed, gaps)
        await self._await_markers()

    def _committed(self, placed: list[Placed], gaps: list[ForeignOffsets]) -> None:
        now = wall_ms()
        acknowledge(placed)
        for sent, _ in placed:
            sent.partition.latency_ms.add(now - sent.chunk.max_timestamp)
        for gap in gaps:
            self._task.emit("foreign_writer", gap.partition, offset=gap.offset, records=gap.offsets)

    async def _write_progress(self, placed: list[Placed]) -> None:
        """Append the map records of the transaction within it."""
        task, target = self._task, self._task.links.target
        map_partition = TopicPartition(task.lease.map_topic, self._bucket)
        signatures = task.buckets[self._bucket].signatures
        data, count = batch_of(pairs(intents_of(placed, task.nonce)), wall_ms(), signatures)
        self._transactions.stamp(map_partition, data, count)
        topic = await task.internal(map_partition.topic, refresh=False)
        node, name = topic.leaders[self._bucket].node, self._transactions.transactional_id
        batch = Append(map_partition.topic, topic.topic_id, self._bucket, data)
        if (code := await append(target, node, batch, name)) in codes.FENCED:
            raise BucketFenced
        if code:
            task.map_topic = None
            raise BulkRefused

    def _abort(self, error: BaseException) -> None:
        """Give the transaction up: the next InitProducerId aborts it, its partitions are resolved again."""
        self._broken = True
        self._ends.clear()
        copied = {p for p in self._partitions if p.state is CopyState.BULK}
        for p in {s.partition for s in self._sent} | copied:
            p.reason = str(error) or p.reason
            self._task.trouble(p, pause=0.1)
        self._sent = []
