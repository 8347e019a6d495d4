"""The journal on the target, and its lock: a writer with a newer producer epoch fences the older one.

The epoch belongs to a transactional id (KIP-98). InitProducerId gives every caller a newer epoch. From the
first append in that epoch, the partition's leader refuses older epochs. Until then the older writer may still
append, so the newer one reads the log up to its own entry before it trusts the history. Sequence numbers make
a repeated append idempotent. The offset in the response shows whether another process wrote in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from drkit.clock import wall_ms
from drkit.control_key import LONGEST_KEY, MOST_REFUSED, Signatures, is_of_other_key
from drkit.errors import ClusterUnreachable, DrkitError, Failed, Refused
from drkit.flow_state.names import ADOPTED, BEGUN, Adoptions, journal_topic, sole_transactional_id
from drkit.flow_state.topic import Dropped
from drkit.journal.entries import Assembly, JournalEntry, JournalHistory, parts_of
from drkit.journal.machine import FAILOVER, TABLES
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.log_tail import LogRestarted, LogTail, NoAnswerYet, T
from drkit.kafka.requests import Append, metadata, produce_request
from drkit.kafka.transactions import ProducerIdentity, Transactions
from drkit.model import TopicPartition
from drkit.wire import Record, encode, stamp

_SECONDS: Final = 20.0
_CALL_MS: Final = 5000
_UNCOMPRESSED: Final = 0


class JournalFenced(Failed):
    """Another process appends to the journal in a newer epoch."""


class JournalReader:
    """Reads the journal incrementally.

    :param cluster: the target, connected
    :param tolerant: for those that only show the journal. They read what a later drkit wrote as far as they
        understand it, pass over records without a valid MAC, and read a journal that was created again from
        its start. For others each of these is an error.
    """

    def __init__(self, cluster: RawCluster, source: str, *, tolerant: bool = False) -> None:
        self.name, self.cluster, self._tolerant = journal_topic(source), cluster, tolerant
        self.dropped = Dropped(self.where)
        """Records skipped because they have no valid MAC."""
        self._begin()

    def _begin(self) -> None:
        self.history = JournalHistory()
        self._assembly = Assembly(tolerant=self._tolerant)
        self._fresh: list[JournalEntry] = []
        """Entries that were read since :meth:`read` last returned."""
        self._fault: ValueError | None = None
        """Why a record is no entry; what follows it does not count."""
        self._refused: list[tuple[str, str]] = []
        at = TopicPartition(self.name, 0)
        self._signatures = Signatures(self.cluster.control, at)
        self._genuine, self._adoptions, self._signed = False, Adoptions(), JournalHistory()
        self._tail = LogTail(
            self.cluster, at, self._take, partial(self._refuse, None), signatures=self._signatures
        )

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.name} on {self.cluster.alias}"

    async def exists(self) -> bool:
        """Return whether the journal topic exists; else the flow never had a failover. Raises RawError."""
        return (await metadata(self.cluster, [self.name]))[self.name].error not in codes.NO_SUCH_TOPIC

    async def read_existing(self) -> JournalHistory:
        """Read to the end of the topic, if it exists; return the history. Raises DrkitError."""
        if await self.exists():
            await self.read()
        return self.history

    async def read(self) -> list[JournalEntry]:
        """Read to the end of the topic; return the new entries and add them to the history.

        :raises ClusterUnreachable: the topic cannot be read
        :raises Failed: it holds a record that is not an entry
        """
        try:
            await self._ask(self._tail.to_end)
        except ClusterUnreachable as error:
            if not (self._tolerant and isinstance(error.__cause__, LogRestarted)):
                raise
            self._begin()
            await self._ask(self._tail.to_end)
        return self._take_fresh()

    def _take_fresh(self) -> list[JournalEntry]:
        """Return the entries that were read since the last call. Raises as :meth:`read` does."""
        if self._fault is not None:
            evidence = repr(self._fault)
            raise Failed("journal_not_understood", where=self.where, evidence=evidence) from self._fault
        self._name_dropped()
        fresh, self._fresh = self._fresh, []
        return fresh

    async def _ask(self, ask: Callable[[RawCluster], Awaitable[T]]) -> T:
        try:
            return await self._tail.patiently(self.cluster, ask, _SECONDS)
        except DrkitError as error:
            raise self._unreachable(error.evidence) from error

    def _unreachable(self, evidence: str) -> ClusterUnreachable:
        run = self.history.open
        table = FAILOVER if run is None else TABLES.get(run.table_name, FAILOVER)
        return ClusterUnreachable(
            "journal_unreachable", where=self.where, evidence=evidence, command=table.command
        )

    def _take(self, record: Record) -> None:
        """Take one record at once: who may write to the topic can fill memory with what does not count."""
        if self._fault is not None:
            return
        if reason := self._signatures.refused(record.key, record.value, record.headers):
            self._refuse(record.key, record.offset, reason)
            return
        self._genuine = True
        if record.key == ADOPTED:
            if self.cluster.control is not None:
                if self._adoptions.take(record.offset, record.value):
                    self.history = self._signed  # all entries again, and in their order
                if record.value == BEGUN:
                    self._signed = JournalHistory()
                self._refused.clear()  # earlier records were adopted, or are not drkit's
            return
        try:
            entry = self._assembly.take(record.value or b"")
        except ValueError as error:
            self._fault = error
            return
        if entry is not None:
            self._fresh.append(entry)
            self.history.take(entry)
            if self._adoptions.begun is not None:
                self._signed.take(entry)

    def _refuse(self, key: bytes | None, offset: int, reason: str) -> None:
        if len(self._refused) < MOST_REFUSED:
            self._refused.append(
                ((key or b"")[:LONGEST_KEY].decode(errors="replace"), f"offset {offset}: {reason}")
            )

    def _name_dropped(self) -> None:
        """Report records without a valid MAC.

        A journal without any valid record would read as "no failover yet", so it is refused.

        :raises Refused: the journal was written without a control key or with another one, or an adoption
            did not end
        """
        refused, self._refused = self._refused, []
        if self._tolerant:
            return
        for each in refused:
            self.dropped.add(*each)
        nothing_counts = self.dropped.count and (self.cluster.control is None or not self._genuine)
        if nothing_counts or self._adoptions.begun is not None:
            first = self.dropped.first if self._adoptions.begun is None else "drkit control adopt did not end"
            code = "control_key_mismatch" if is_of_other_key(first) else "journal_unsigned"
            evidence = f"{self.dropped.count} records without one; {first}"
            raise Refused(code, where=self.where, evidence=evidence)


class JournalTopic(JournalReader):
    """Reads the journal, and appends to it in an epoch of its own."""

    def __init__(self, cluster: RawCluster, source: str, target: str) -> None:
        super().__init__(cluster, source)
        self._transactions = Transactions(cluster, sole_transactional_id(source, target, "failover"))
        self._identity: ProducerIdentity | None = None
        self._sequence = 0

    async def take_epoch(self) -> None:
        """Get a newer epoch than all before. It fences no other process until the first append.

        :raises DrkitError: the target gives no epoch
        """
        self._identity = await self._transactions.begin_epoch()
        self._sequence = 0

    async def append(self, entry: JournalEntry) -> bool:
        """Make an entry durable (acks=all) and read it back.

        :returns: False when another process's entries precede this one since the last read: the caller has to
            check the history, which now contains them
        :raises JournalFenced: another process appends in a newer epoch; no part of this entry counts
        :raises Failed: it was not accepted in time
        """
        expected = self._tail.end
        alone = True
        for value in parts_of(entry):
            base = await self._append(value, entry.run_id.encode())
            alone = alone and base == expected
            expected = base + 1

        async def reach_entry(cluster: RawCluster) -> None:
            await self._tail.look(cluster)  # the leader that was asked last took the entry: it leads
            if self._tail.end < expected:
                raise NoAnswerYet(f"offset {self._tail.end} of {expected} is not returned")

        await self._ask(reach_entry)
        if not any(e == entry for e in self._take_fresh()):
            evidence = f"entry {entry.number} of run {entry.run_id}; read up to {self._tail.end}"
            raise Failed("journal_entry_vanished", where=self.where, evidence=evidence)
        return alone

    async def _append(self, value: bytes, key: bytes) -> int:
        assert self._identity is not None  # noqa: S101  take_epoch was first
        record = Record(0, wall_ms(), key, value, self._signatures.headers(key, value))
        data = encode([record], _UNCOMPRESSED)
        stamp(data, *self._identity, self._sequence, transactional=False)

        async def send(node: int) -> tuple[int, int]:
            request = produce_request([Append(self.name, self._tail.topic_id, 0, data)])
            answer = await self.cluster.send(request, node, timeout_ms=_CALL_MS)
            partition = answer.responses[0].partition_responses[0]
            if partition.error_code not in {0, *codes.FENCED, *codes.NOT_AUTHORIZED}:
                raise NoAnswerYet(codes.error_name(partition.error_code))
            return partition.error_code, int(partition.base_offset)

        code, base = await self._ask(lambda cluster: self._tail.on_leader(cluster, send))
        if code in codes.FENCED:
            raise JournalFenced("journal_fenced", where=self.where, evidence=f"error {code}")
        if code:
            raise Failed("journal_not_writable", where=self.where, evidence=codes.error_name(code))
        self._sequence += 1
        return base
