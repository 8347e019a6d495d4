"""Reads one partition of a small topic of drkit's own on and on, to the end that its current leader knows.

Any client with WRITE on such a topic can put two things there that must not stop its readers:

- an open transaction (KIP-98). Ordinary ``read_committed`` consumers see nothing that follows it, for up to
  15 minutes. Here it hides its own records only: the records of others are read past it.
- a few kilobytes that unpack to gigabytes, or to millions of records. Such a batch is passed over and named.

A broker that was frozen or cut off takes itself for the leader until it hears of its successor. Until then it
answers with the end that it knew, and what the successor has acknowledged is missing (decision 0036). So most
replicas are asked who leads: one of them acknowledged, and knows the leader epoch in which it did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.control_key import LogPlace, Signatures, SignedTopic
from drkit.counted import counted
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthorized
from drkit.kafka import codes
from drkit.kafka.raw import EventLoop, Future, RawCluster
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    PartitionLeader,
    TopicMetadata,
    aborted_in,
    fetch_one,
    list_offsets,
    metadata,
)
from drkit.model import TopicPartition
from drkit.wire import (
    AbortedTransactions,
    BatchHeader,
    CorruptBatch,
    Record,
    batch_crc,
    decode,
    is_commit,
    split,
)

T = TypeVar("T")
_ONE_MS: Final = 1000
"""A replica that does not answer in this time is left out."""
_FEW_SECONDS: Final = 3.0
"""Seconds to wait for most replicas; then those that answer count. A resumed broker is informed by then."""
_LEADER_MS: Final = 2000
"""Then the replicas are asked again who leads."""
_PAUSE_SECONDS: Final = 0.05
_FETCH: Final = (1 << 20, 5000)
"""Most bytes of an answer, and the milliseconds that it may take."""
_WIDE_FETCH: Final = (8 << 20, 30_000)
"""For the offset map: many megabytes, maybe at the end of a long link."""
SMALL_BYTES: Final = 2 << 20
"""Limit of an unpacked batch in topics with records of at most a megabyte."""
_SMALL: Final = SignedTopic.JOURNAL, SignedTopic.NOTES
LARGE_BYTES: Final = 32 << 20
"""Limit of an unpacked batch in topics whose records grow with the number of partitions."""
_OPEN_BYTES: Final = 64 << 20
"""Limit of the records that are kept until their transactions end; any client may open one."""
_MOST_RECORDS: Final = 100_000
"""Of a compressed batch, and of the headers of any: a few kilobytes hold millions, which take a minute."""


class LogEnds(NamedTuple):
    """The ends of a log."""

    replicated: int
    """The high watermark: all that was acknowledged is before it."""
    decided: int
    """The last stable offset, asked later: an open transaction hides what follows."""


class LogRestarted(Failed):
    """The log is not the one that was read until now."""


class NoAnswerYet(Exception):
    """An answer without what was asked, so the question is repeated; the text is the evidence."""


class LogTail:
    """Reads the records of one partition in order, over its own connection; for one thread.

    :param on: the cluster: its settings, for connections of its own, or existing connections
    :param take: called with each record, in order; never with one of an open or aborted transaction
    :param pass_over: called with the offset of a skipped batch, and the reason
    :param signatures: gets the ids of cluster and topic; without, all records of open transactions
        are kept, with it those that may count
    :param in_order: read no further than the first open transaction, and not past records that were removed
    :param topic: its id and leaders, where they are known
    """

    def __init__(
        self,
        on: ClusterSettings | RawCluster,
        at: TopicPartition,
        take: Callable[[Record], None],
        pass_over: Callable[[int, str], None] = lambda _offset, _why: None,
        *,
        signatures: Signatures | None = None,
        in_order: bool = False,
        topic: TopicMetadata | None = None,
    ) -> None:
        self._on, self._tp, self._in_order = on, at, in_order
        self._most_bytes, self._call_ms = _WIDE_FETCH if in_order else _FETCH
        self._own: RawCluster | None = None
        """The connections of this reader, if it was given settings; made with the first question."""
        self._signatures, self._answered = signatures, ""
        self.topic_id = UUID(int=0)
        """Id of the topic, or zero before the first answer."""
        if topic is not None:
            self._identify(topic.topic_id)
        self.high_watermark: int | None = None
        """End of the log in the newest answer, or None before the first."""
        self._replicas: tuple[int, ...] = ()
        self._few_since: float | None = None
        """Time since which most replicas do not answer."""
        self._take, self._pass_over = take, pass_over
        self._limit = SMALL_BYTES if at.topic.startswith(_SMALL) else LARGE_BYTES
        """A batch that unpacks to more bytes is skipped."""
        self.next_offset = 0
        """The first offset that is not read, or belongs to an open transaction."""
        self._ahead = 0
        """The first unread offset, after open transactions."""
        self.epoch = -1
        """Highest leader epoch of a batch that was read, or −1. A log that lost it has lost records."""
        self._open: dict[int, list[Record]] = {}
        """Producer → records of its open transaction before the log's end."""
        self._open_bytes = 0
        """Bytes of batches with such records, since none was open."""
        self._early: set[int] = set()
        """Offsets of records whose transaction was committed while an earlier one is still open."""
        leader = topic.leaders.get(at.partition) if topic is not None else None
        self._node = leader.node if leader is not None and leader.node >= 0 else None

    @property
    def end(self) -> int:
        """The first offset not read yet; records of open transactions before it are :attr:`undecided`."""
        return max(self.next_offset, self._ahead)

    @property
    def undecided(self) -> list[Record]:
        """Records of open transactions before the log's end that may count."""
        return [record for records in self.undecided_of.values() for record in records]

    @property
    def undecided_of(self) -> dict[int, list[Record]]:
        """These records by their producer."""
        signed = self._signatures
        return {
            producer: [r for r in records if signed is None or signed.may_count(r.offset, r.key)]
            for producer, records in self._open.items()
        }

    @property
    def cluster_id(self) -> str:
        """Id of the cluster that answered last; empty before the first answer."""
        cluster = self._on if isinstance(self._on, RawCluster) else self._own
        if cluster is not None and cluster.cluster_id:
            self._answered = cluster.cluster_id
        return self._answered

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._answered = self.cluster_id
        if self._own is not None:
            self._own.close()
            self._own.loop.close()
            self._own = None

    def skip_to_last(self, records: int, seconds: float) -> bool:
        """Begin at most this many offsets before the end; False without a topic. Raises as :meth:`read`."""
        found = self._run(lambda cluster: metadata(cluster, [self._tp.topic]), seconds)
        if found[self._tp.topic].error in codes.NO_SUCH_TOPIC:
            return False
        self.next_offset = max(0, self._run(self._ends, seconds)[1].replicated - records)
        return True

    def read(self, seconds: float) -> LogEnds:
        """Take the next records up to the end at the time of the call.

        Every record acknowledged before the call is taken, or is in :attr:`undecided`.

        :raises LogRestarted: the log was emptied or created again
        :raises DrkitError: it cannot be read to its end in time
        """
        ends: LogEnds = self._run(self.to_end, seconds)
        return ends

    async def to_end(self, cluster: RawCluster) -> LogEnds:
        """Take the records up to the end, as :meth:`read` does, or in order; for :meth:`patiently`."""
        node, ends = await self._ends(cluster)
        if ends.replicated < self.end:
            raise self._restarted(f"it ends at {ends.replicated}, but was read up to {self.end}")
        await self._look(cluster, node, 0)  # without news, too: it shows the right to read, and a lost tail
        while self.next_offset < ends.decided or (self._ahead < ends.replicated and not self._in_order):
            before = self.next_offset, self._ahead
            await self._look(cluster, node, 0)
            if (self.next_offset, self._ahead) == before:
                raise NoAnswerYet(f"offset {self._ahead} of {ends.replicated} is not returned")
        return ends

    def poll(self, seconds: float, wait_ms: int) -> bool:
        """Take the records that arrive within some milliseconds; return whether the log's end was reached.

        :param seconds: timeout for a response
        :raises LogRestarted: the log was emptied or created again
        :raises DrkitError: there was no answer
        """
        ended: bool = self._run(partial(self.look, wait_ms=wait_ms), seconds)
        return ended

    async def look(self, cluster: RawCluster, wait_ms: int = 0) -> bool:
        """Take the available records, as :meth:`poll` does; for :meth:`patiently`."""
        return await self.on_leader(cluster, lambda node: self._look(cluster, node, wait_ms))

    async def on_leader(self, cluster: RawCluster, ask: Callable[[int], Awaitable[T]]) -> T:
        """Ask the last known leader; look it up again after a failure.

        :param ask: called with its node
        """
        if self._node is None:
            self._node = (await self._leader(cluster)).node
        try:
            return await ask(self._node)
        except BaseException:
            self._node = None
            raise

    async def _look(self, cluster: RawCluster, node: int, wait_ms: int) -> bool:
        """Take one response of committed records, and records after open transactions; True at the end."""
        answer = await self._fetch(cluster, node, self.next_offset, committed=True, wait_ms=wait_ms)
        if answer is None:
            return False
        self._take_committed(answer)
        self.high_watermark = answer.high_watermark
        if self.next_offset < answer.last_stable_offset:
            return False
        if self._in_order:
            return True
        self._ahead = max(self._ahead, self.next_offset)
        while self._ahead < answer.high_watermark:
            more = await self._fetch(cluster, node, self._ahead, committed=False)
            if more is None:
                return False
            self._take_others(more)
        return True

    async def _fetch(
        self, cluster: RawCluster, node: int, offset: int, *, committed: bool, wait_ms: int = 0
    ) -> Any:
        answer = await fetch_one(
            cluster,
            node,
            (self._tp.topic, self.topic_id),
            self._tp.partition,
            offset,
            committed=committed,
            max_bytes=self._most_bytes,
            max_wait_ms=wait_ms,
            timeout_ms=self._call_ms + wait_ms,
            last_epoch=self.epoch,
        )
        if (diverging := answer.diverging_epoch) is not None:
            if diverging.end_offset < self.end:
                raise self._restarted(
                    f"it was read up to {self.end}, and lost what followed {diverging.end_offset}"
                )
            self.epoch = diverging.epoch  # the cleaner left no record of that epoch
            return None
        if answer.error_code == codes.OFFSET_OUT_OF_RANGE:
            await self._find_start(cluster, node)
            return None
        if answer.error_code in codes.NOT_AUTHORIZED:
            raise self._refused(answer.error_code)
        if answer.error_code:
            raise NoAnswerYet(codes.error_name(answer.error_code))
        return answer

    async def _find_start(self, cluster: RawCluster, node: int) -> None:
        """Continue at the start of the log, after retention or DeleteRecords."""
        listed = (await list_offsets(cluster, node, {self._tp: EARLIEST}, committed=False))[self._tp]
        if listed.error:
            raise NoAnswerYet(codes.error_name(listed.error))
        if self.next_offset >= listed.offset or (self._in_order and self.next_offset):
            raise self._restarted(f"it begins at {listed.offset}, and was read up to {self.next_offset}")
        self.next_offset, self.epoch = listed.offset, -1

    def _batches(self, answer: Any) -> list[tuple[BatchHeader, memoryview]]:
        try:
            found = list(split(answer.records or b""))
        except CorruptBatch as error:
            raise NoAnswerYet(error.reason) from error
        for header, batch in found:
            if batch_crc(batch) != header.crc:
                raise NoAnswerYet(f"the checksum of the batch at offset {header.base_offset} is wrong")
            if header.leader_epoch > self.epoch >= 0 and header.next_offset <= self._ahead:
                raise self._restarted(f"offset {header.base_offset} was read before, of epoch {self.epoch}")
            self.epoch = max(self.epoch, header.leader_epoch)
        return found

    def _take_committed(self, answer: Any) -> None:
        aborted = AbortedTransactions(aborted_in(answer))
        for header, batch in self._batches(answer):
            aborted.advance(header.last_offset)
            if header.is_control:
                aborted.end(header, batch)
            elif header.last_offset >= self.next_offset and (self._signatures or not aborted.hides(header)):
                # Records outside of transactions were taken before, if they were read beyond an open one.
                start = self.next_offset if header.is_transactional else max(self.next_offset, self._ahead)
                records = [r for r in self._unpacked(header, batch) if r.offset >= start]
                unread = [r for r in records if r.offset not in self._early]
                self._end(unread, committed=not aborted.hides(header))
            self.next_offset = max(self.next_offset, header.next_offset)
        self._early = {offset for offset in self._early if offset >= self.next_offset}
        remaining = {p: [r for r in kept if r.offset >= self.next_offset] for p, kept in self._open.items()}
        self._open = {producer: records for producer, records in remaining.items() if records}

    def _take_others(self, answer: Any) -> None:
        """Take records outside of transactions, and of those that are committed; others are undecided."""
        for header, batch in self._batches(answer):
            if header.last_offset < self._ahead:
                continue
            if header.is_control:
                transaction, committed = self._open.pop(header.producer_id, []), is_commit(header, batch)
                self._early.update(r.offset for r in transaction if committed)
                self._end(transaction, committed=committed)
            else:
                records = [r for r in self._unpacked(header, batch) if r.offset >= self._ahead]
                if header.is_transactional:
                    self._keep_undecided(header, list(filter(self._reserve, records)))
                else:
                    self._end(records, committed=True)
            self._ahead = max(self._ahead, header.next_offset)

    def _reserve(self, record: Record) -> bool:
        signed, (offset, stamped_ms, key, value, headers) = self._signatures, record
        return signed is None or signed.reserve(offset, key, value, headers, stamped_ms)

    def _end(self, records: Iterable[Record], *, committed: bool) -> None:
        """Take records that are in no transaction, or in a committed one. Of aborted ones no copy counts."""
        for record in records:
            if not committed:
                self._reserve(record)
            if self._signatures is not None:
                self._signatures.settle(record.offset, record.key, record.headers, committed=committed)
            if committed:
                self._take(record)

    def _keep_undecided(self, header: BatchHeader, records: list[Record]) -> None:
        """Keep records until their transaction ends. Records above the limit are read after its end."""
        self._open_bytes = self._open_bytes if self._open else 0
        self._open_bytes += sum(map(_memory_of, records))
        if self._open_bytes > _OPEN_BYTES:
            self._pass_over(header.base_offset, f"open transactions hold more than {_OPEN_BYTES:,} bytes")
        elif records:
            self._open.setdefault(header.producer_id, []).extend(records)

    def _unpacked(self, header: BatchHeader, batch: memoryview) -> list[Record]:
        try:
            if header.count <= _MOST_RECORDS or not header.codec:
                return decode(header, batch, self._limit, max(1, _MOST_RECORDS // max(1, header.count)))
            reason = f"a batch of {header.count:,} records"
        except CorruptBatch as error:
            reason = error.reason
        self._pass_over(header.base_offset, reason)
        return []

    def _run(self, ask: Callable[[RawCluster], Awaitable[Any]], seconds: float) -> Any:
        if isinstance(self._on, RawCluster):
            cluster = self._on
        else:
            cluster = self._own = self._own or RawCluster(EventLoop(), self._on, "log")
        return cluster.loop.run(self.patiently, cluster, ask, seconds)

    async def patiently(
        self, cluster: RawCluster, ask: Callable[[RawCluster], Awaitable[T]], seconds: float
    ) -> T:
        """Ask again until there is an answer. Raises as :meth:`read` does.

        :param seconds: timeout since the last records that were read: who may write can make the log long
        """
        deadline, end = monotonic() + seconds, self.end
        while True:
            try:
                await cluster.connected(max(1, round(1000 * (deadline - monotonic()))))
                return await ask(cluster)
            except (ClusterUnreachable, NoAnswerYet) as error:
                if self.end > end:
                    deadline, end = monotonic() + seconds, self.end
                if monotonic() > deadline:
                    raise self._unknown(error) from error
            await cluster.loop.sleep(_PAUSE_SECONDS)

    async def _ends(self, cluster: RawCluster) -> tuple[int, LogEnds]:
        """Return the leader's node, and the ends of its log."""
        leader, ends = await self._leader(cluster), []
        for committed in (False, True):
            answer = await list_offsets(
                cluster, leader.node, {self._tp: LATEST}, committed=committed,
                epochs={self._tp: leader.epoch}, timeout_ms=_LEADER_MS,
            )  # fmt: skip
            code = answer[self._tp].error
            if code in codes.NOT_AUTHORIZED:
                raise self._refused(code)
            if code:  # also if the broker does not know yet that it leads
                raise NoAnswerYet(codes.error_name(code))
            ends.append(answer[self._tp].offset)
        return leader.node, LogEnds(*ends)

    async def _leader(self, cluster: RawCluster) -> PartitionLeader:
        known = [] if self._replicas else [await self._view(cluster, None)]
        self._replicas = replicas = self._replicas or known[0].replicas
        if not known or len(replicas) > 1:
            views = await self._views(cluster, replicas)
            known += views
            self._count(len(views), len(replicas))
        newest = max(known, key=lambda leader: leader.epoch)
        self._replicas = newest.replicas
        if newest.node < 0:
            raise NoAnswerYet("it has no leader")
        return newest

    def _count(self, answered: int, replicas: int) -> None:
        """Refuse the word of a few as long as the others may still answer."""
        if 2 * answered > replicas:
            self._few_since = None
            return
        self._few_since = self._few_since or monotonic()
        if not answered:
            self._replicas = ()  # they may be others now
        if not answered or monotonic() - self._few_since < _FEW_SECONDS:
            raise NoAnswerYet(f"{answered} of {counted(replicas, 'replica')} answer")

    async def _views(self, cluster: RawCluster, replicas: tuple[int, ...]) -> list[PartitionLeader]:
        """Return the answers of most replicas, or of fewer if the others do not answer."""
        views: list[PartitionLeader] = []
        missing, enough = set(replicas), Future()

        async def ask(node: int) -> None:
            try:
                views.append(await self._view(cluster, node))
            except (DrkitError, NoAnswerYet):  # the others may answer
                return
            finally:
                missing.discard(node)
                if not enough.is_done and (not missing or 2 * len(views) > len(replicas)):
                    enough.success(None)

        for node in replicas:
            cluster.loop.spawn(ask, node)
        await enough
        return list(views)

    async def _view(self, cluster: RawCluster, node: int | None) -> PartitionLeader:
        topic = (await metadata(cluster, [self._tp.topic], node, timeout_ms=_ONE_MS))[self._tp.topic]
        if topic.error in codes.NOT_AUTHORIZED:
            raise self._refused(topic.error)
        leader = topic.leaders.get(self._tp.partition)
        if leader is None:
            raise NoAnswerYet(codes.error_name(topic.error))
        if self.topic_id.int and self.topic_id != topic.topic_id:
            raise self._restarted(f"it was created again, with id {topic.topic_id}")
        self._identify(topic.topic_id)
        return leader

    def _identify(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        if self._signatures is not None:
            self._signatures.place = LogPlace(self._tp, self.cluster_id, topic_id)

    def _restarted(self, evidence: str) -> LogRestarted:
        return LogRestarted("log_restarted", where=f"{self._tp} on {self._on.alias}", evidence=evidence)

    def _refused(self, code: int) -> NotAuthorized:
        where = f"{self._tp} on {self._on.alias}"
        return NotAuthorized("not_authorized_for_log_end", where=where, evidence=codes.error_name(code))

    def _unknown(self, error: Exception) -> Failed:
        evidence = error.evidence if isinstance(error, ClusterUnreachable) else str(error) or repr(error)
        return Failed("log_end_unknown", where=f"{self._tp} on {self._on.alias}", evidence=evidence)


def _memory_of(record: Record) -> int:
    parts = record.key, record.value, *(part for header in record.headers for part in header)
    return 64 + sum(64 + len(part or b"") for part in parts)
