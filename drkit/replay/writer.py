"""Appends the tail of one partition in transactions, each with its progress: each record once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from drkit.clock import monotonic, wall_ms
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.flow_state.names import keep_transactional_id, replay_transactional_id
from drkit.kafka import codes
from drkit.kafka.appending import append
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import Append, produce_request
from drkit.kafka.transactions import TransactionFailed, Transactions
from drkit.kafka.transport import may_send
from drkit.model import TopicPartition
from drkit.replay.compare import Origin, Same, fate_of, key_hash
from drkit.replay.destination import Destination
from drkit.replay.left_open import ReplayMarkers
from drkit.replay.log import ReplayLog
from drkit.replay.plan import PartitionPlan, begun_by, refuse_other_way
from drkit.replay.progress import ReplayProgress, packed, part_keys
from drkit.replay.side import TRANSACTION_MS, ActiveSide, NotYet, refused_append, taken
from drkit.replay.tail import TailPiece, batches, pieces
from drkit.wire import Record

_TRIES: Final = 8
_PAUSE_SECONDS: Final = 0.5
_REQUEST_SECONDS: Final = 30.0
Stopped = Callable[[], bool]
Tell = Callable[[ReplayProgress], None]


class TailProducers(NamedTuple):
    """The producers of one replay into a partition, each with an epoch of its own."""

    begins: Transactions
    """Puts on record that the replay begins; all replays into the partition have its transactional id."""
    appends: Transactions
    """Appends the records. Where the old primary keeps the tail, nothing else does: the flow back leaves out
    what this producer wrote."""


async def fenced(
    cluster: RawCluster, flow: FlowSettings, at: TopicPartition, kept_by: str | None
) -> TailProducers:
    """Fence all others that replay into a partition, and abort what they have open.

    :param at: on the new primary
    :param kept_by: the run whose tail the old primary keeps
    :raises TransactionFailed: the coordinator refuses
    :raises RawError: no answer
    """
    ends = flow.source, flow.target
    begins = Transactions(cluster, replay_transactional_id(*ends, at), TRANSACTION_MS)
    await begins.begin_epoch()
    if kept_by is None:
        return TailProducers(begins, begins)
    appends = Transactions(cluster, keep_transactional_id(*ends, at, kept_by), TRANSACTION_MS)
    await appends.begin_epoch()
    return TailProducers(begins, appends)


class LateKeys:
    """Keys that others wrote to a partition since it was compared with the tail, committed or not."""

    def __init__(self, side: ActiveSide, to: Destination, origin: Origin, since: int) -> None:
        self._side, self._to, self._origin = side, to, origin
        self._next = since
        self._hashes: set[bytes] = set()

    async def read_on(self, end: int | None = None) -> None:
        """Read up to an offset, or to the current end. Raises DrkitError."""
        end = await self._side.end(self._to.at, self._to.topic_id) if end is None else end
        if end > self._next:
            span = (self._next, end)
            await self._side.read(self._to.at, self._to.topic_id, span, self._take, committed=False)
            self._next = end

    def without(self, records: list[Record]) -> list[Record]:
        """Return the records whose keys no other client has written."""
        return [r for r in records if r.key is None or key_hash(r.key) not in self._hashes]

    def _take(self, record: Record) -> None:
        if record.key is not None and self._origin.offset_of(record.headers) is None:
            self._hashes.add(key_hash(record.key))


class ReplayResult(NamedTuple):
    """The result of a replay for the tail of a partition, over all its attempts."""

    appended: int
    already: int
    """Records that the new primary had already."""
    skipped_changed_keys: int
    """Records of a compacted topic that were left out because newer values exist."""
    is_done: bool = True
    """False if it was stopped."""
    ids: tuple[int, ...] | None = None
    """The producers that wrote the records, or None if the old primary does not keep the tail."""
    copied_to: int | None = None
    """Offset on the new primary after the last of them."""

    @classmethod
    def of(cls, progress: ReplayProgress) -> ReplayResult:
        """Return the result for a recorded progress."""
        counts = progress.appended, progress.already, progress.kept_back
        copied_to = progress.copied_to if progress.ids is not None else None
        return cls(*counts, progress.is_done, progress.ids, copied_to)


class ReplayWork(NamedTuple):
    """The settings that all partitions of a replay have in common."""

    side: ActiveSide
    log: ReplayLog
    same: Same
    manifest: str
    """Its SHA-256."""
    told: Tell
    """Receives the progress after each transaction."""
    stopped: Stopped


class PartitionReplay:
    """Appends the tail of one partition; the only one who may, since all others are fenced.

    The record that it begins is written by the producer that all replays share. So of a return that keeps the
    tail and a ``drkit replay`` of the same moment one finds the record of the other, or is fenced.

    :param producers: begun
    """

    def __init__(self, work: ReplayWork, plan: PartitionPlan, producers: TailProducers) -> None:
        self._work, self._side, self._log = work, work.side, work.log
        self._plan, self._same = plan, plan.progress.same if plan.progress else work.same
        self._transactions, self._producers = producers.begins, producers
        self._progress = plan.progress
        self._left = ReplayMarkers(work.side, work.log, {plan.to.at: plan.to.topic_id})

    async def run(self) -> ReplayResult:
        """Append what is left.

        :raises ReplayTaken: another process replays into the partition
        :raises Refused: the new primary rejects the records, or a file was altered
        :raises DrkitError: the new primary does not answer, or refuses
        """
        tries, reached = 0, self._reached()
        while True:
            try:
                if tries:
                    await self._take_up()
                await self._append_rest()
                assert self._progress is not None  # noqa: S101  begun
                return ReplayResult.of(self._progress)
            except (RawError, NotYet, TransactionFailed) as error:
                if isinstance(error, TransactionFailed) and error.kafka_code in codes.FENCED:
                    raise taken(self._plan.to.at, self._side.alias, error.evidence) from error
                tries = 1 if self._reached() > reached else tries + 1
                reached = self._reached()
                if tries > _TRIES:
                    last = getattr(error, "evidence", "") or repr(error)
                    raise Failed(
                        "replay_stalled",
                        where=f"{self._plan.to.at} on {self._side.alias}",
                        evidence=f"{_TRIES} tries in a row; the last one: {last}",
                    ) from error
            except DrkitError:
                await self._abort()
                raise
            await self._side.cluster.loop.sleep(_PAUSE_SECONDS)

    def _reached(self) -> int:
        return -1 if self._progress is None else self._progress.next

    async def _abort(self) -> None:
        """End what is open at once: readers of committed records would wait for it."""
        with suppress(DrkitError):
            await self._transactions.end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        """End the transaction, and wait for its markers: the next one would decide about what is open."""
        await self._transactions.end(commit=commit)
        await self._left.await_markers(self._transactions)

    async def _take_up(self) -> None:
        """Continue from the recorded progress: the end of the last attempt is unknown."""
        await self._transactions.begin_epoch()
        await self._left.end([self._transactions])
        book = await self._log.read(self._side, decided=True)
        seen = book.of_partition(self._plan.to.at)
        recorded = seen.get(self._new().key)
        if self._plan.tail.origin.is_kept and recorded is not None and recorded.rolled_back_ms is not None:
            raise taken(self._plan.to.at, self._side.alias, "the return that keeps the tail was rolled back")
        refuse_other_way(self._plan.tail, seen.values(), f"{self._plan.to.at} on {self._side.alias}")
        self._progress = begun_by(self._plan.tail, self._plan.to, seen)

    async def _append_rest(self) -> None:
        if self._progress is None:
            await self._begin()
        self._transactions = self._producers.appends
        progress, plan = self._progress, self._plan
        assert progress is not None  # noqa: S101  begun
        if progress.is_done:
            return
        late = None
        if plan.to.compacted:
            late = LateKeys(self._side, plan.to, plan.tail.origin, progress.compared_to)
        fates = {f: fate_of(f, same=self._same, compacted=plan.to.compacted) for f in set(plan.flags)}
        for piece in pieces(plan.tail, plan.flags, progress.next, fates.__getitem__):
            if self._work.stopped():
                return
            await self._append(piece, late)

    def _new(self) -> ReplayProgress:
        tail, to = self._plan.tail, self._plan.to
        return ReplayProgress(
            run_id=tail.origin.run_id, manifest=self._work.manifest, source_topic=tail.source.topic,
            source_id=tail.topic_id, partition=tail.source.partition, first=tail.first, end=tail.end,
            topic=to.at.topic, topic_id=to.topic_id, same=self._same, compared_to=self._plan.compared_to,
            records=tail.records, next=tail.first, begun_ms=wall_ms(),
            ids=() if tail.origin.is_kept else None,
        )  # fmt: skip

    async def _begin(self) -> None:
        """Record the decision about the tail, before the first record is appended."""
        begun = self._new()
        await self._transactions.add([self._log.at])
        for part in packed(begun.run_id, begun.at, self._plan.flags):
            await self._produce_log([part])
        written: list[tuple[bytes, bytes | None]] = [(begun.key, begun.encode())]
        if (rolled_back := self._plan.rolled_back) is not None:
            written += [(rolled_back.rolled_back_key, rolled_back.encode())]
        await self._produce_log(written)
        await self._end(commit=True)
        self._progress = begun

    async def _append(self, piece: TailPiece, late: LateKeys | None) -> None:
        tp, records = self._plan.to.at, piece.records
        if late is not None:
            await late.read_on()
            records = late.without(records)
        while True:
            await self._transactions.add([tp, self._log.at] if records else [self._log.at])
            end = await self._produce(records)
            if late is None or not records:
                break
            # A client may have written a newer value between the look and the append.
            await late.read_on(end)
            if len(rest := late.without(records)) == len(records):
                break
            await self._end(commit=False)
            records = rest
        await self._commit(piece, len(records), end)

    async def _commit(self, piece: TailPiece, appended: int, end: int) -> None:
        """End the transaction with the progress; `end` is the offset after the last appended record."""
        before = self._progress
        assert before is not None  # noqa: S101  begun
        after = replace(
            before, next=piece.next, appended=before.appended + appended,
            already=before.already + piece.already,
            kept_back=before.kept_back + piece.kept_back + len(piece.records) - appended,
            copied_to=end if appended else before.copied_to,
        )  # fmt: skip
        if before.ids is not None:
            after = replace(after, ids=tuple(sorted({*before.ids, self._transactions.identity.id})))
        written: list[tuple[bytes, bytes | None]] = [(after.key, after.encode())]
        if after.is_done:
            written += [(key, None) for key in part_keys(after.run_id, after.at, after.records)]
        await self._produce_log(written)
        await self._end(commit=True)
        self._progress = after
        self._work.told(after)

    async def _produce(self, records: list[Record]) -> int:
        to, answers, end = self._plan.to, [], 0
        if records:
            node = await self._side.leader(to.at, to.topic_id)
            for data, count in batches(records, to.max_bytes):
                may_send()
                self._transactions.stamp(to.at, data, count)
                batch = Append(to.at.topic, to.topic_id, to.at.partition, data)
                request = produce_request([batch], transactional_id=self._transactions.transactional_id)
                until = monotonic() + _REQUEST_SECONDS
                answers.append((await self._side.cluster.queue(request, node, until), count))
        for future, count in answers:
            answer = (await future).responses[0].partition_responses[0]
            self._check(to.at, answer.error_code, answer.error_message)
            end = answer.base_offset + count
        return end

    async def _produce_log(self, written: list[tuple[bytes, bytes | None]]) -> None:
        at, (data, count) = self._log.at, self._log.batch(written)
        node = await self._side.leader(at, self._log.id)
        may_send()
        self._transactions.stamp(at, data, count)
        batch, name = Append(at.topic, self._log.id, at.partition, data), self._transactions.transactional_id
        self._check(at, await append(self._side.cluster, node, batch, name), None)

    def _check(self, at: TopicPartition, code: int, message: str | None) -> None:
        """Raise NotYet if another try may succeed, Failed or Refused if none can."""
        if code in codes.APPEND_AGAIN or code == codes.DUPLICATE_SEQUENCE_NUMBER:
            self._side.forget(at.topic)
            raise NotYet(error_name(code))
        if code:
            raise refused_append(at, self._side.alias, code, message)


Results = Mapping[TopicPartition, ReplayResult]
"""Partition of the old primary → what was done with its tail."""
