"""Bulk mode: old records in ordinary transactions, together with their offset map.

The broker forgets a producer by the time of its last batch: the sequence is no cursor for older records.
In an open transaction it is kept, and progress commits with the data: a crash leaves a hole, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.clock import boottime, wall_ms
from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.core.runs import extend_runs
from drkit.copy_task.target.live import refused
from drkit.errors import Failed
from drkit.flow_state.records import BulkProducerRecord
from drkit.kafka import codes
from drkit.kafka.raw import Future
from drkit.kafka.requests import Append, metadata, produce_request
from drkit.kafka.transactions import TransactionFailed, Transactions
from drkit.model import TopicPartition
from drkit.offset_map.bucket import batch_of, pairs
from drkit.offsets import Intent, MapKey
from drkit.offsets.map_record import SEQUENCE_MODULUS, Mode
from drkit.wire import Chunk, stamp

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
    """One intent per stretch of the target's log that holds only records of this flow."""
    out: list[tuple[MapKey, Intent]] = []
    by_partition: dict[MapKey, list[Placed]] = {}
    for item in placed:
        by_partition.setdefault(item[0].partition.key, []).append(item)
    for key, items in by_partition.items():
        end = items[0][0].partition.acked_own_end
        for stretch in _stretches(items):
            out.append((key, _intent(stretch, end, nonce)))
            end = stretch[-1][1] + stretch[-1][0].chunk.count
    return out


def acknowledge(placed: Iterable[Placed]) -> None:
    """The transaction is committed."""
    for sent, base in placed:
        if sent.current:
            sent.partition.committed(sent.chunk, base)


class ForeignOffsets(NamedTuple):
    """Target offsets between two chunks of this flow that another writer took."""

    partition: PartitionCopy
    offset: int
    offsets: int


async def moved(task: TaskContext, partitions: Collection[PartitionCopy]) -> bool:
    """Return whether a partition of a transaction has another leader than when it was settled.

    Appends of transactions are not compared with the log: after an unclean election they would take the
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
        mode=Mode.BULK,
        nonce=nonce,
        history=p.history,
        base_sequence=p.acked_sequence,
        downstream=stretch[0][1],
        previous_end=previous_end,
        leader_epoch=stretch[-1][0].chunk.leader_epoch,
        runs=tuple(runs),
        target_epoch=p.target_epoch,
    )


_IDLE_SECONDS = 0.5
_LINGER_SECONDS = 0.02


class BulkRefused(Exception):
    """A batch inside a transaction was not accepted: the transaction is aborted, no consumer sees it."""


class BucketFenced(Exception):
    """Another task holds the bucket now, or the coordinator gave up on a transaction of this task.

    Taking the bucket back is for the next epoch, not for a zombie.
    """


class BulkAppender:
    """Writes the partitions of one bucket that are in bulk mode."""

    def __init__(self, task: TaskContext, bucket: int, transactions: Transactions) -> None:
        self._task = task
        self._bucket = bucket
        self._transactions = transactions
        self._partitions = task.in_bucket[bucket]
        self._sequences: dict[TopicPartition, int] = {}
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
            if not self._broken and not await self._known():
                await task.changed.wait(_IDLE_SECONDS)
                continue
            self._admit()
            if not self._broken and not any(self._ready(p) for p in self._partitions):
                self._leave()
                await task.changed.wait(_IDLE_SECONDS)
                continue
            self.busy = True
            try:
                if self._broken:
                    # At once: nothing of the bucket can be resolved while the lost transaction is open.
                    await self._transactions.begin_epoch()
                    self._sequences, self._broken = {}, False
                else:
                    await self._transaction()
            except BucketFenced:
                task.finish("fenced")
            except TransactionFailed as error:
                if error.kafka_code in codes.FENCED:
                    task.finish("fenced")
                self._abandon(error)
            except (BulkRefused, Failed) as error:
                self._abandon(error)
            finally:
                self.busy = False
                task.changed.set()

    async def _known(self) -> bool:
        """Whether this task may write with the bucket's current producer id.

        After a bucket was taken some 32,000 times, or a week without that, its transactional id gets another
        producer id. A flow in the other direction must know the new id first: the driver ensures that.
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

    def _admit(self) -> None:
        """Move partitions whose next chunk is old, once their live pipeline is empty."""
        for p in self._partitions:
            if (
                p.state is CopyState.LIVE
                and not p.ready
                and not p.in_flight
                and (p.oldest_is_older_than(self._task.live_floor_ms(CopyState.LIVE)))
            ):
                if p.contested:
                    # A late append in live mode does not collide with a transaction.
                    self._task.deviate(p, "old records are copied in transactions")
                    continue
                p.state = CopyState.BULK
                self._ends.pop(p.target, None)
                if p.lease.returning:  # what is in between is looked at before the first commit
                    self._ends[p.target] = p.acked_downstream

    def _leave(self) -> None:
        """Partitions whose next chunk is young go back to live mode through a look at the target."""
        for p in self._partitions:
            if p.state is CopyState.BULK and p.waiting and not self._ready(p):
                p.void()
                self._task.changed.set()

    def _ready(self, p: PartitionCopy) -> bool:
        return p.state is CopyState.BULK and p.oldest_is_older_than(self._task.live_floor_ms(CopyState.BULK))

    async def _transaction(self) -> None:
        task, flow = self._task, self._task.flow
        self._sent, self._requests, self._added = [], [], set()
        started, size = boottime(), 0
        while not task.ending and size < flow.bulk_commit_bytes:
            if boottime() - started > flow.bulk_commit_seconds:
                break
            moved = await self._round()
            size += moved
            if not moved:
                if not self._requests or all(r.is_done for r in self._requests):
                    await task.changed.wait(_LINGER_SECONDS)
                    if not any(self._ready(p) for p in self._partitions):
                        break
                else:
                    await self._requests[-1]
        await self._commit()

    async def _round(self) -> int:
        """Send one batch of each partition that has one; returns bytes."""
        task = self._task
        ready = [p for p in self._partitions if self._ready(p)]
        if not ready:
            return 0
        pending = [r for r in self._requests if not r.is_done]
        # Any number may be: none is ever repeated, one that fails ends the transaction.
        if len(pending) >= task.flow.produce_in_flight:
            await pending[0]
        if task.expired:
            task.finish("expired")
            raise BulkRefused
        await self._add([p.target for p in ready])
        by_node: dict[int, list[Sent]] = {}
        for p in ready:
            if self._ready(p) and p.target.partition >= 0:
                sent = Sent(p, p.generation, p.waiting.popleft(), Future())
                by_node.setdefault(p.target_leader, []).append(sent)
                p.uncommitted += 1
        size = 0
        for node, taken in by_node.items():
            # While another broker's answer was awaited, a partition may have started over.
            current = [s for s in taken if s.current]
            size += await self._send(node, current) if current else 0
        return size

    async def _add(self, partitions: list[TopicPartition]) -> None:
        new = [p for p in partitions if p not in self._added]
        if not self._added:
            new.append(TopicPartition(self._task.lease.map_topic, self._bucket))
        if new:
            await self._transactions.add(new)
            self._added.update(new)

    def _stamp(self, where: TopicPartition, data: bytearray, count: int) -> None:
        sequence = self._sequences.get(where, 0)
        identity = self._transactions.identity
        stamp(data, identity.id, identity.epoch, sequence, transactional=True)
        self._sequences[where] = (sequence + count) % SEQUENCE_MODULUS

    async def _send(self, node: int, taken: list[Sent]) -> int:
        task = self._task
        appends, size = [], 0
        for p, _, chunk, _ in taken:
            self._stamp(p.target, chunk.data, chunk.count)
            appends.append(Append(p.target.topic, p.target_id, p.target.partition, chunk.data))
            size += len(chunk.data)
        answers = {(s.partition.target_id, s.partition.target.partition): s.answer for s in taken}
        self._sent += taken
        request = produce_request(appends, transactional_id=self._transactions.transactional_id)
        future = await task.links.produce.queue(request, node, task.send_deadline())
        done = Future()
        future.add_callback(task.guarded(self._answered, answers, done))
        future.add_errback(task.guarded(self._failed, answers, done))
        self._requests.append(done)
        task.counters.requests += 1
        task.counters.batches += len(taken)
        return size

    @staticmethod
    def _answered(answers: dict[tuple[Any, int], Future], done: Future, answer: Any) -> None:
        for topic in answer.responses:
            for r in topic.partition_responses:
                answers[topic.topic_id, r.index].success(r)
        done.success(None)

    @staticmethod
    def _failed(answers: dict[tuple[Any, int], Future], done: Future, error: BaseException) -> None:
        for future in answers.values():
            future.failure(error)
        done.success(None)

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
            raise BulkRefused(GAP)  # nothing may be committed behind what the log must show first
        await self._write_progress(placed)
        if self._task.expired or not all(s.current for s, _ in placed):
            raise BulkRefused
        await self._transactions.end(commit=True)
        self._ends = ends
        self._committed(placed, gaps)

    def _committed(self, placed: list[Placed], gaps: list[ForeignOffsets]) -> None:
        now = wall_ms()
        acknowledge(placed)
        for sent, _ in placed:
            sent.partition.latency_ms.add(now - sent.chunk.max_timestamp)
        for gap in gaps:
            self._task.emit("foreign_writer", gap.partition, offset=gap.offset, records=gap.offsets)

    async def _write_progress(self, placed: list[Placed]) -> None:
        """The map records of the transaction, inside it."""
        task, target = self._task, self._task.links.target
        where = TopicPartition(task.lease.map_topic, self._bucket)
        signatures = task.buckets[self._bucket].signatures
        data, count = batch_of(pairs(intents_of(placed, task.nonce)), wall_ms(), signatures)
        self._stamp(where, data, count)
        topic = await task.internal(where.topic, refresh=False)
        append = Append(where.topic, topic.topic_id, self._bucket, data)
        request = produce_request([append], transactional_id=self._transactions.transactional_id)
        answer = await target.send(request, topic.leaders[where.partition].node)
        if (code := answer.responses[0].partition_responses[0].error_code) in codes.FENCED:
            raise BucketFenced
        if code:
            task.map_topic = None
            raise BulkRefused

    def _abandon(self, error: BaseException) -> None:
        """The transaction is lost: the next InitProducerId aborts it, its partitions start over."""
        self._broken = True
        self._ends.clear()
        copied = {p for p in self._partitions if p.state is CopyState.BULK}
        for p in {s.partition for s in self._sent} | copied:
            p.reason = str(error) or p.reason
            self._task.trouble(p, pause=0.1)
        self._sent = []
