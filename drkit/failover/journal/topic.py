"""The journal on the target, and its lock: a writer with a newer producer epoch fences the older one.

The epoch belongs to a transactional id (KIP-98). InitProducerId gives every caller a newer epoch. From the
first append in that epoch, the partition's leader refuses older epochs. Until then the older writer may still
append, so the newer one reads the log up to its own entry before it trusts the history. Sequence numbers make
a repeated append idempotent. The offset in the response shows whether another process wrote in between.
"""

from __future__ import annotations

from typing import Any, Final

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.errors import ClusterUnreachable, Failed, Refused
from drkit.failover.core.machine import FAILOVER
from drkit.failover.journal.entries import Assembly, JournalEntry, JournalHistory, parts_of
from drkit.flow_state.dropped import Dropped
from drkit.flow_state.names import ADOPTED, failover_transactional_id, journal_topic
from drkit.kafka import codes
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import Append, TopicMetadata, fetch_one, metadata, produce_request
from drkit.kafka.topics import create_own_topic
from drkit.kafka.transactions import ProducerIdentity, Transactions
from drkit.wire import Record, encode, records_in, stamp, visible

_SECONDS: Final = 20.0
_CALL_MS: Final = 5000
_PAUSE_SECONDS: Final = 0.05
_UNCOMPRESSED: Final = 0
_FETCH_BYTES: Final = 8 << 20
BEGUN: Final = b"begun"
DONE: Final = b"done"


class JournalFenced(Failed):
    """Another process appends to the journal in a newer epoch."""


def ensure_topic(target: Cluster, name: str) -> None:
    """Create the journal topic if it is missing, with unlimited retention.

    :raises DrkitError: it cannot be created
    """
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
    }
    create_own_topic(target, name, configs)


class JournalTopic:
    """Reads the journal incrementally, and appends to it in its own epoch.

    :param cluster: the target, connected
    """

    def __init__(
        self,
        cluster: RawCluster,
        source: str,
        target: str,
        *,
        clock: Seconds = monotonic,
        wall: Millis = wall_ms,
    ) -> None:
        self.name = journal_topic(source)
        self.history = JournalHistory()
        self._cluster = cluster
        self._transactions = Transactions(cluster, failover_transactional_id(source, target))
        self._identity: ProducerIdentity | None = None
        self._sequence = 0
        self._topic: TopicMetadata | None = None
        self._assembly = Assembly()
        self._clock, self._wall = clock, wall
        self.dropped = Dropped(self.where)
        """Records skipped because they have no valid MAC."""
        self._refused: list[tuple[bytes | None, int, str]] = []
        self._signatures = cluster.signatures(self.name)
        self._genuine = self._unfinished = False
        self.next_offset = 0
        """The first offset not read yet."""

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.name} on {self._cluster.alias}"

    # -- reading ------------------------------------------------------------------------------------

    async def exists(self) -> bool:
        """Whether the journal topic exists, so that this flow ever had a failover."""
        found = (await metadata(self._cluster, [self.name]))[self.name]
        return found.error not in codes.NO_SUCH_TOPIC

    async def read(self) -> list[JournalEntry]:
        """Read to the end of the topic; return the new entries and add them to the history.

        :raises Failed: the topic cannot be read, or holds a record that is not an entry
        """
        fresh: list[JournalEntry] = []
        deadline = self._clock() + _SECONDS
        while True:
            before = self.next_offset
            answer = await self._fetch(deadline)
            for record in self._records(answer):
                entry = self._entry(record) if record.key != ADOPTED else None
                if entry is not None:
                    fresh.append(entry)
                    self.history.take(entry)
            if self.next_offset >= answer.high_watermark:
                self._name_dropped()
                return fresh
            if self.next_offset == before:
                self._in_time(deadline, "its end does not come")
                await self._cluster.loop.sleep(_PAUSE_SECONDS)

    async def _fetch(self, deadline: float) -> Any:
        while True:
            node, where = await self._leader(deadline)
            answer = None
            try:
                answer = await fetch_one(
                    self._cluster, node, where, 0, self.next_offset, committed=False,
                    max_bytes=_FETCH_BYTES, max_wait_ms=0,
                )  # fmt: skip
            except RawError as error:
                self._in_time(deadline, repr(error))
            if answer is not None and not answer.error_code:
                return answer
            self._topic = None
            self._in_time(deadline, f"Kafka error code {answer.error_code if answer is not None else -1}")
            await self._cluster.loop.sleep(_PAUSE_SECONDS)

    def _records(self, answer: Any) -> list[Record]:
        out = visible(answer.records or b"", self.next_offset)
        self.next_offset = max(self.next_offset, out.next_source)
        return [r for chunk in out.chunks for r in records_in(chunk) if self._is_ours(r)]

    def _is_ours(self, record: Record) -> bool:
        """Whether a record has a valid MAC, or no control key is set; others are kept for the report."""
        why = self._signatures.refused(record.key, record.value, record.headers)
        if why:
            self._refused.append((record.key, record.offset, why))
            return False
        self._genuine = True
        if self._cluster.control is not None and record.key == ADOPTED:
            self._unfinished = record.value == BEGUN
            self._refused.clear()  # earlier records were adopted, or are not drkit's
        return True

    def _name_dropped(self) -> None:
        """Report records without a valid MAC.

        A journal without any valid record would read as "no failover yet", so it is refused.

        :raises Refused: the journal was written without a control key or with another one, or an adoption
            did not end
        """
        for refused in self._refused:
            self.dropped.add(*refused)
        self._refused.clear()
        nothing_counts = self.dropped.count and (self._cluster.control is None or not self._genuine)
        if nothing_counts or self._unfinished:
            first = "drkit control adopt did not end" if self._unfinished else self.dropped.first
            raise Refused(
                "journal_unsigned",
                where=self.where,
                evidence=f"{self.dropped.count} records without one; {first}",
            )

    def _entry(self, record: Record) -> JournalEntry | None:
        try:
            return self._assembly.take(record.value or b"")
        except (ValueError, KeyError, TypeError) as error:
            raise Failed("journal_not_understood", where=self.where, evidence=repr(error)) from error

    # -- appending ----------------------------------------------------------------------------------

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
        expected = self.next_offset
        alone = True
        for value in parts_of(entry):
            base = await self._append(value, entry.run_id.encode())
            alone = alone and base == expected
            expected = base + 1
        fresh = await self.read()
        if not any(e == entry for e in fresh):
            raise Failed(
                "journal_entry_vanished",
                where=self.where,
                evidence=f"entry {entry.number} of run {entry.run_id}; read up to {self.next_offset}",
            )
        return alone

    async def _append(self, value: bytes, key: bytes) -> int:
        assert self._identity is not None  # noqa: S101  take_epoch was first
        record = Record(0, self._wall(), key, value, self._signatures.headers(key, value))
        data = encode([record], _UNCOMPRESSED)
        stamp(data, *self._identity, self._sequence, transactional=False)
        deadline, code = self._clock() + _SECONDS, -1
        while True:
            node, (name, topic_id) = await self._leader(deadline)
            request = produce_request([Append(name, topic_id, 0, data)])
            try:
                answer = await self._cluster.send(request, node, timeout_ms=_CALL_MS)
                found = answer.responses[0].partition_responses[0]
                code = int(found.error_code)
                if not code:
                    self._sequence += 1
                    return int(found.base_offset)
            except RawError:
                code = -1
            self._judge(code)
            self._topic = None
            self._in_time(deadline, f"Kafka error code {code}")
            await self._cluster.loop.sleep(_PAUSE_SECONDS)

    def _judge(self, code: int) -> None:
        if code in codes.FENCED:
            raise JournalFenced("journal_fenced", where=self.where, evidence=f"error {code}")
        if code == codes.TOPIC_AUTHORIZATION_FAILED:
            raise Failed("journal_not_writable", where=self.where, evidence="TOPIC_AUTHORIZATION_FAILED (29)")

    async def _leader(self, deadline: float) -> tuple[int, tuple[str, Any]]:
        while True:
            if self._topic is None:
                try:
                    self._topic = (await metadata(self._cluster, [self.name]))[self.name]
                except RawError as error:
                    self._in_time(deadline, repr(error))
            if self._topic is not None:
                leader = self._topic.leaders.get(0)
                if leader is not None and leader.node >= 0:
                    return leader.node, (self.name, self._topic.topic_id)
                self._in_time(deadline, _why_no_leader(self._topic.error))
                self._topic = None
            await self._cluster.loop.sleep(_PAUSE_SECONDS)

    def _in_time(self, deadline: float, evidence: str) -> None:
        if self._clock() > deadline:
            run = self.history.open
            command = (run.table if run is not None else FAILOVER).command
            raise ClusterUnreachable(
                "journal_unreachable", where=self.where, evidence=evidence, command=command
            )


def _why_no_leader(code: int) -> str:
    if code in codes.NO_SUCH_TOPIC:
        return f"the topic is not there any more (Kafka error code {code}): was it deleted?"
    return f"no leader, Kafka error code {code}"
