"""The topic of a flow's state on the target: small, compacted, keys as text, values as JSON objects.

The topic holds the whole state of a flow, so any machine can continue it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
import threading
import time
from types import TracebackType
from typing import Final, Self

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings
from drkit.control_key import signed, verify
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.flow_state.dropped import Dropped
from drkit.flow_state.names import state_topic
from drkit.flow_state.newest import NewestRecords
from drkit.flow_state.records import EventRecord, StateRecord
from drkit.flow_state.state import FlowState, R, StateChange
from drkit.flow_state.topic_clients import state_consumer, state_producer
from drkit.kafka.clients import OFFSET_BEGINNING, ConfluentPartition, KafkaError, KafkaException, Message
from drkit.kafka.permit import may_send
from drkit.kafka.reading.headers import headers_of
from drkit.kafka.reading.log_end import LogEndReader, LogEnds
from drkit.model import TopicPartition

_READ_SECONDS: Final = 20.0
_HIDDEN_SECONDS: Final = 30.0
"""A renewal of a dead holder stays open for its 10 s, and until the coordinator looks, every 10 s."""
_AGAIN_SECONDS: Final = 0.05
_LEADER_SECONDS: Final = 1.0
"""Then the consumer looks for another leader: its own may be frozen."""
_WRITE_SECONDS: Final = 30.0
_FINAL: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001  the constant's only name
})  # fmt: skip


class StateTopic:
    """Reads and writes a flow's state. May be used from several threads."""

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = state_topic(source)
        self._target = target
        self.records = FlowState(f"{self.name} on {target.alias}")
        """The state read so far."""
        self._consumer = state_consumer(target, source)
        self._producer = state_producer(target)
        self._consumer.assign([ConfluentPartition(self.name, 0, OFFSET_BEGINNING)])
        self._log_end = LogEndReader(target, TopicPartition(self.name, 0))
        self._lock = threading.Lock()
        self._position, self._is_read, self._is_closed = 0, False, False
        self._newest = NewestRecords(self._take, lambda key: key in self.records.unreadable)
        self._refused: dict[bytes, tuple[int, str]] = {}
        self.dropped = Dropped(f"{self.name} on {target.alias}")
        """Records without a valid MAC: they were passed over."""
        self.followed: dict[str, list[bytes | None]] = {}
        """What is read under some keys, in its order: for who put a key there."""
        self.on_read: Callable[[int, StateChange], None] = lambda _offset, _change: None
        """Called with every change that is read, and its offset, by the thread that reads it."""

    def load(self) -> None:
        """Read on to the end: all that was acknowledged before this call is read.

        :raises DrkitError: the topic cannot be read, or an open transaction hides its end
        """
        end, began = self._read_decided(), monotonic()
        while self._position < end:  # other threads may read, and abort what hides it
            if monotonic() - began > _HIDDEN_SECONDS:
                raise self._hidden()
            time.sleep(_AGAIN_SECONDS)
            self._read_decided()

    def load_decided(self) -> bool:
        """Read on to the first open transaction; False when it hides what was written before this call.

        :raises DrkitError: the topic cannot be read
        """
        end = self._read_decided()
        return self._position >= end

    def _read_decided(self) -> int:
        """Read on to the first open transaction; returns the end of what was acknowledged before."""
        with self._lock:
            ends = self._ends()
            self._read_on(min(ends))
            return ends.replicated

    def _read_on(self, end: int) -> None:
        if end < self._position:
            raise self._unreadable(f"it ends at {end}, but was read up to {self._position}")
        moved = looked = monotonic()
        while self._position < end:
            message = self._consumer.poll(0.1)
            now = monotonic()
            if message is None:
                if now - moved > _READ_SECONDS:
                    raise self._unreadable(f"no answer in {_READ_SECONDS:.0f} s")
                if now - looked > _LEADER_SECONDS:
                    looked = now
                    self._find_leader()
                continue
            error = message.error()
            if error is None:
                self._position, moved = (message.offset() or 0) + 1, now
                self._newest.put(message.key(), message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                # Reported once per end reached, also after transaction markers, which are not messages.
                self._position = message.offset() or 0
            elif error.code() in _FINAL or now - moved > _READ_SECONDS:
                raise self._unreadable(f"{error.name()}: {error.str()}", error.code())
        self._newest.flush()
        self._name_dropped()
        self._is_read = True

    def _find_leader(self) -> None:
        """Ask who leads; a broker that does not answer is asked again later."""
        with suppress(KafkaException):
            self._consumer.list_topics(self.name, _LEADER_SECONDS)

    def _take(self, message: Message) -> None:
        offset, key, value = message.offset() or 0, message.key(), message.value()
        if key is None:
            return
        if why := verify(self._target.control, self.name, key, value, headers_of(message)):
            self._drop(key, why, offset)
            return
        change = self.records.take(key, value, offset)
        if change is not None:
            self.followed.get(change.key, []).append(value)
            self.on_read(offset, change)

    def _drop(self, key: bytes, why: str, offset: int) -> None:
        self.records.refuse(key, why, offset, live=self._is_read)
        self._refused[key] = offset, why

    def _name_dropped(self) -> None:
        """Report records that do not count, except those that were since written again with a MAC."""
        for key, (offset, why) in self._refused.items():
            if self._is_read or key.decode("utf-8", errors="replace") in self.records.refused:
                self.dropped.add(key, offset, why)
        self._refused.clear()

    @property
    def position(self) -> int:
        """The first offset of the topic not read yet."""
        return self._position

    def _ends(self) -> LogEnds:
        """The topic's current ends; asked again for a topic that was just created, or that moves."""
        if self._is_closed:  # at the end of an attempt, when a thread reads once more
            raise self._unreadable("it was closed")
        try:
            return self._log_end.ask(_READ_SECONDS)
        except NotAuthorized as error:
            raise self._unreadable(error.evidence, KafkaError.TOPIC_AUTHORIZATION_FAILED) from error
        except DrkitError as error:
            raise self._unreadable(error.evidence) from error

    def get(self, kind: type[R], name: str = "") -> R | None:
        """The record of a kind, or None.

        :param name: the name in the key, for kinds with many records
        :raises Damaged: a required record was replaced by one that is not drkit's
        """
        return self.records.get(kind, name)

    def all(self, kind: type[R]) -> dict[str, R]:
        """All records of a kind, by the names in their keys. Raises as :meth:`get` does."""
        return self.records.all(kind)

    def put(self, record: StateRecord, name: str = "") -> None:
        """Write one record, durably (acks=all).

        :param name: the name in the key, for kinds with many records
        :raises Failed: it was not accepted
        """
        self.put_all([(name, record)])

    def put_all(self, records: Iterable[tuple[str, StateRecord]]) -> None:
        """Write records with their names, durably and together. Raises as :meth:`put` does."""
        written = [(record.key(name), record, record.encode()) for name, record in records]
        self._write([(key, value) for key, _, value in written])
        for key, record, value in written:
            self.records.keep(key, record, value)

    def delete(self, kind: type[StateRecord], name: str = "") -> None:
        """Delete one record. Raises as :meth:`put` does."""
        key = kind.key(name)
        self.write(key, None)
        self.records.take(key.encode(), None)

    def write(self, key: str, value: bytes | None) -> None:
        """Write bytes as they are; None deletes the key. Raises as :meth:`put` does."""
        self._write([(key, value)])

    def _write(self, written: Sequence[tuple[str, bytes | None]]) -> None:
        if not written:
            return
        reported: list[KafkaError | None] = []
        may_send()
        for key, value in written:
            name = key.encode()
            self._producer.produce(
                self.name, value, name, partition=0, on_delivery=lambda error, _: reported.append(error),
                headers=signed(self._target.control, self.name, name, value),
            )  # fmt: skip
        self._producer.flush(_WRITE_SECONDS)
        failed = next((error for error in reported if error is not None), None)
        if len(reported) < len(written) or failed is not None:
            raise Failed(
                "state_not_writable",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(failed) if failed is not None else f"no answer in {_WRITE_SECONDS:.0f} s",
            )

    def emit(self, kind: str, topic: str, partition: int = -1, **fields: object) -> None:
        """Write an event where `drkit status` finds it; partition −1 is the whole topic."""
        event = EventRecord(kind, topic, partition, wall_ms(), fields)
        self.put(event, event.name)

    def close(self) -> None:
        """Let go of the connections."""
        try:
            with self._lock:
                self._is_closed = True
                self._log_end.close()
                self._consumer.close()
        except KafkaException as error:
            raise self._unreadable(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _unreadable(self, evidence: str, code: int = 0) -> DrkitError:
        kind = NotAuthorized if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else Failed
        return kind(
            "state_read_failed",
            where=f"{self.name} on {self._target.alias}",
            evidence=evidence,
        )

    def _hidden(self) -> DrkitError:
        return Failed(
            "state_unreadable",
            where=f"{self.name} on {self._target.alias}",
            evidence=f"an open transaction hides what follows offset {self._position}",
            target=self._target.alias,
        )
