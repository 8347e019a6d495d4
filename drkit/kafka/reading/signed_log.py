"""A topic of drkit's own: one partition, read in order and written durably.

The one way to read and write such topics. Who may write there cannot hide records from its readers, end
them with a large batch, or make an earlier record count again (:mod:`drkit.kafka.reading.log_tail`,
:class:`drkit.control_key.Signatures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
import threading
import time
from types import MappingProxyType
from typing import Final

from drkit import observe
from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.control_key import LONGEST_KEY, REPLAYED, WHO_WRITES, Signatures
from drkit.counted import is_reported
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthorized
from drkit.kafka.clients import KafkaError, KafkaException, Producer, deliver, is_fenced, own_producer
from drkit.kafka.reading.log_tail import LogRestarted, LogTail
from drkit.kafka.transport import may_send
from drkit.model import TopicPartition
from drkit.wire import Record

_READ_SECONDS: Final = 20.0
_WRITE_SECONDS: Final = 30.0
_OPEN_SECONDS: Final = 30.0
"""A transaction of a dead process stays open for its timeout, 10 s, and until the coordinator checks."""
_PAUSE_SECONDS: Final = 0.05
_CLAIM_SECONDS: Final = 10.0
_TRIES: Final = 3
_LARGEST_BYTES: Final = 16 << 20
Take = Callable[[Record, str], None]
"""Takes a record, and why it does not count; empty when it does. A batch that is passed over has no key.

Copies of earlier records are reported here, and never taken."""


class Overtaken(Failed):
    """Another process wrote at the same time."""


class SignedLog:
    """May be used from several threads. Connections are made at the first use.

    :param take: called with each record in order, by the thread that reads
    :param on_restart: called before a topic that was created again is read from its start, or None if its
        user must not continue with such a topic
    """

    def __init__(
        self,
        settings: ClusterSettings,
        topic: str,
        take: Take,
        *,
        on_restart: Callable[[], None] | None = None,
    ) -> None:
        self.name, self._settings, self._take = topic, settings, take
        self._on_restart = on_restart
        self.lock = threading.RLock()
        """Held while records are read and taken."""
        self._producer: Producer | None = None
        self._awaited: set[str | bytes | None] = set()
        """MACs of written records that were not read back yet."""
        self._refused = ""
        """Why the last record that was written here does not count, or empty if it does."""
        self._replayed = 0
        self._begin()

    def _begin(self) -> None:
        at = TopicPartition(self.name, 0)
        self.signatures = Signatures(self._settings.control, at)
        self.tail = LogTail(
            self._settings,
            at,
            self._read_one,
            lambda offset, why: self._take(Record(offset, 0, None, None), why),
            signatures=self.signatures,
        )

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.name} on {self._settings.alias}"

    def restart(self) -> None:
        """Forget what was read: the next read begins at the start of the topic."""
        with self.lock:
            self.tail.close()
            self._begin()

    def read(self) -> int:
        """Read the log to its end and return that offset: records acknowledged before this call are below it.

        Records of open transactions are left out.

        :raises LogRestarted: the topic was emptied or created again, and there is no `on_restart`
        :raises DrkitError: it cannot be read to its end
        """
        with self.lock:
            try:
                return self.tail.read(_READ_SECONDS).replicated
            except LogRestarted:
                if self._on_restart is None:
                    raise
                self.restart()
                self._on_restart()
                return self.read()
            except DrkitError as error:
                kind = NotAuthorized if isinstance(error, NotAuthorized) else Failed
                raise kind("own_topic_unreadable", where=self.where, evidence=error.evidence) from error

    def read_decided(self) -> int | None:
        """Read the log to its end. Raises as :meth:`read` does.

        :returns: the offset of a record below the end that an open transaction hides, or None
        """
        with self.lock:
            end = self.read()
            return self._hidden(end)

    def load(self) -> None:
        """Read the log to its end, and wait until open transactions hide none. Raises as :meth:`read` does.

        :raises Failed: a transaction stays open that may hold a record of drkit's
        """
        end, until = self.read(), monotonic() + _OPEN_SECONDS
        while (offset := self._hidden(end)) is not None:
            if monotonic() > until:
                evidence = f"an open transaction hides the record at offset {offset}"
                raise Failed(
                    "own_topic_hidden", where=self.where, evidence=evidence, alias=self._settings.alias
                )
            time.sleep(_PAUSE_SECONDS)
            self.read()

    def _hidden(self, end: int) -> int | None:
        with self.lock:
            return next((r.offset for r in self.tail.undecided if r.offset < end), None)

    def _read_one(self, record: Record) -> None:
        why = self.signatures.refused(record.key, record.value, record.headers, record.timestamp)
        if self._awaited and not self._awaited.isdisjoint(macs := [mac for _, mac in record.headers]):
            self._refused = why
            self._awaited.difference_update(() if why else macs)
        if why == REPLAYED:
            self._report(record)
            return
        if why:  # what does not count must not fill memory
            record = Record(record.offset, 0, record.key and record.key[:LONGEST_KEY], record.value and b"")
        self._take(record, why)

    def _report(self, record: Record) -> None:
        self._replayed += 1
        if is_reported(self._replayed):
            observe.event(
                "record_replayed",
                level="warning",
                where=self.where,
                key=(record.key or b"")[:80].decode(errors="backslashreplace"),
                offset=record.offset,
                count=self._replayed,
                hint=WHO_WRITES,
            )

    def append(self, *records: tuple[bytes, bytes | None]) -> int:
        """Write keys with values, durably (acks=all), and return the first offset; None deletes a key.

        With a control key the records are read back, and must count.

        :raises DrkitError: one was not accepted, or does not count
        """
        if not records:
            return 0
        for _ in range(_TRIES):
            if (offset := self._append(records)) is not None:
                return offset
        evidence = f"records were accepted, and do not count: {self._refused}"
        raise Failed("own_topic_unwritable", where=self.where, evidence=evidence)

    def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> int | None:
        """Write records; None when one does not count, as another process wrote its key at the same time."""
        with self.lock:
            if self._settings.control is not None:
                self.read()  # now no record has a higher order than these get
            signed = [(0, key, value, self.signatures.text_headers(key, value)) for key, value in records]
            macs = {mac for _, _, _, headers in signed for mac in (headers or {}).values()}
            self._awaited |= macs
        try:
            may_send()
            self._producer = self._producer or log_producer(self._settings)
            delivery = deliver(self._producer, self.name, signed, _WRITE_SECONDS)
            if failed := delivery.failed:
                kind = ClusterUnreachable if failed[0].code() == KafkaError._MSG_TIMED_OUT else Failed  # noqa: SLF001  the constant's only name
                raise kind("own_topic_unwritable", where=self.where, evidence=delivery.evidence)
            if macs:
                self.read()
            return None if macs & self._awaited else delivery.first[0]
        finally:
            self._awaited -= macs

    @contextmanager
    def alone(self, transactional_id: str) -> Iterator[Callable[[bytes, bytes], None]]:
        """Yield a function that writes a record. A later process that calls this fences an earlier one.

        What an earlier one has written can be read in the block. Raises as :meth:`append` does.

        :raises Overtaken: another process has begun, or wrote the key at the same time
        """
        limits = dict.fromkeys(("transaction.timeout.ms", "message.timeout.ms"), int(_CLAIM_SECONDS * 1000))
        producer = log_producer(self._settings, {"transactional.id": transactional_id, **limits})

        def write(key: bytes, value: bytes) -> None:
            self.read()  # now no record has a higher order than this one gets
            headers = self.signatures.text_headers(key, value)
            self._awaited |= (macs := set((headers or {}).values()))
            producer.begin_transaction()
            producer.produce(self.name, value, key, partition=0, headers=headers)
            producer.commit_transaction(_CLAIM_SECONDS)
            self.load()  # a coordinator answers before its marker is in the log
            if macs & self._awaited:
                evidence = "another record of its key was written at the same moment"
                raise Overtaken("own_topic_unwritable", where=self.where, evidence=evidence)

        try:
            producer.init_transactions(_CLAIM_SECONDS)
            yield write
        except KafkaException as error:
            kind, evidence = Overtaken if is_fenced(error) else Failed, str(error.args[0])
            raise kind("own_topic_unwritable", where=self.where, evidence=evidence) from error

    def close(self) -> None:
        """Close the connections; a later call makes new ones."""
        with self.lock:
            self.tail.close()
            self._producer = None


def log_producer(settings: ClusterSettings, more: Mapping[str, str | int] = MappingProxyType({})) -> Producer:
    """Return an idempotent producer that sends at once.

    :param more: properties, such as a transactional id
    """
    # A deleted topic must not come back as another one. The note of the source's ends grows with the
    # partitions; brokers limit its compressed size.
    own = {"enable.idempotence": True, "message.timeout.ms": 30_000, "message.max.bytes": _LARGEST_BYTES}
    return own_producer(settings, {**own, "compression.type": "zstd", **more})
