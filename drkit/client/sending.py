"""Unacknowledged records: handed to the current client, held, or carried over to the next one."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
import threading
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drkit.client.calls import served, unhindered
from drkit.client.errors import WrongCluster
from drkit.client.identity import KNOWN_SECONDS, ClusterIdCheck
from drkit.client.switch import LOG, UNUSABLE, EndpointWatch, Switch, end_producer, in_background
from drkit.client.waiting import Calls, Opened
from drkit.clock import monotonic
from drkit.endpoint import Endpoint

Delivered = Callable[[KafkaError | None, Message | None], object]
RETRY_SECONDS: Final = 1.0
"""How often a fence is tried with one record."""
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_TOO_LARGE: Final = KafkaError.MSG_SIZE_TOO_LARGE
_SMALL: Final = 64 * 1024
"""Bytes. A topic that refuses even such a record accepts no records at all."""


@dataclass(eq=False, slots=True)
class OutboxRecord:
    """One call of `produce`."""

    number: int
    topic: str
    value: Any
    key: Any
    partition: int
    timestamp: int
    headers: Any
    call: Delivered | None
    born: float
    """Time of the call by a monotonic clock, in seconds."""
    generation: int = 0
    """Number of the client that it was last handed to."""
    uncertain: bool = False
    """It was in flight when its cluster was left."""
    error: KafkaError | None = None
    """The last refusal."""
    message: Message | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum(len(x) for x in (self.key, self.value) if isinstance(x, (str, bytes)))


class DeliveryResult(NamedTuple):
    """The consequences of a delivery report."""

    final: bool
    """Whether the result is reported to the application."""
    send: list[OutboxRecord]
    """Records that may be sent now."""


class Outbox:
    """Keeps each record until its delivery is decided.

    A record that the cluster refuses as a fence does is held, and with it all later ones of its topic, so
    that their order stays; every second one of them is sent to test whether the fence is gone.

    :param hold_seconds: how long a record may be held, counted from `produce`
    """

    def __init__(self, hold_seconds: float) -> None:
        self._hold_seconds = hold_seconds
        self._pending: dict[int, OutboxRecord] = {}
        self._held: dict[str, list[OutboxRecord]] = {}
        self._trying: dict[str, OutboxRecord] = {}
        self._waiting: list[OutboxRecord] | None = []
        self._next_try = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def held(self) -> int:
        """The number of records that wait for a fence to be lifted."""
        return sum(map(len, self._held.values())) + len(self._trying)

    def number(self) -> int:
        """The number of the next record."""
        self._count += 1
        return self._count

    def add(self, record: OutboxRecord) -> bool:
        """Add a record; returns whether it may be sent now."""
        self._pending[record.number] = record
        if self._waiting is not None:
            self._waiting.append(record)
        elif record.topic in self._held:
            self._held[record.topic].append(record)
        else:
            return True
        return False

    def drop(self, record: OutboxRecord) -> None:
        """Remove a record that could not be handed to the client."""
        self._pending.pop(record.number, None)

    def hold(self, record: OutboxRecord) -> None:
        """Hold a record, in the order of its topic; later records of the topic wait after it."""
        if self._trying.get(record.topic) is record:
            del self._trying[record.topic]
        insort(self._held.setdefault(record.topic, []), record, key=lambda r: r.number)

    def open(self) -> list[OutboxRecord]:
        """Note that the cluster is the right one; returns the records that waited for this."""
        waiting, self._waiting = self._waiting or [], None
        return waiting

    @property
    def is_open(self) -> bool:
        """True once the cluster is known to be the right one."""
        return self._waiting is None

    def knows(self, record: OutboxRecord, generation: int) -> bool:
        """Return whether a report of this client about the record still counts."""
        return record.generation == generation and record.number in self._pending

    def settle(self, record: OutboxRecord, error: KafkaError | None, now: float) -> DeliveryResult:
        """Process a delivery report of a record."""
        if error is not None and self._is_fence(record, error) and now - record.born < self._hold_seconds:
            record.error = error
            self.hold(record)
            return DeliveryResult(final=False, send=[])
        self._pending.pop(record.number, None)
        if self._trying.get(record.topic) is not record:
            return DeliveryResult(final=True, send=[])
        del self._trying[record.topic]
        return DeliveryResult(final=True, send=self._held.pop(record.topic, []))

    def due(self, now: float) -> list[OutboxRecord]:
        """One record of each held topic, to try the fence with."""
        if now < self._next_try or not self._held:
            return []
        self._next_try = now + RETRY_SECONDS
        trials = []
        for topic, records in self._held.items():
            if topic not in self._trying and records:
                self._trying[topic] = records.pop(0)
                trials.append(self._trying[topic])
        return trials

    def expired(self, now: float) -> list[OutboxRecord]:
        """Remove and return held records whose time is over."""
        expired = []
        for topic in list(self._held):
            retained = [r for r in self._held[topic] if now - r.born < self._hold_seconds]
            expired += [r for r in self._held[topic] if now - r.born >= self._hold_seconds]
            self._held[topic] = retained
            if not retained and topic not in self._trying:
                del self._held[topic]
        for record in expired:
            self.drop(record)
        return expired

    def purge(self) -> list[OutboxRecord]:
        """Remove and return the records that wait here instead of in the client."""
        purged = [r for records in self._held.values() for r in records] + (self._waiting or [])
        self._held = {topic: [] for topic in self._trying}
        self._waiting = None if self._waiting is None else []
        for record in purged:
            self.drop(record)
        return sorted(purged, key=lambda r: r.number)

    def leave(self) -> list[OutboxRecord]:
        """Leave the cluster and return all undecided records in their order; no record is held any longer."""
        self._held.clear()
        self._trying.clear()
        self._waiting = []
        undecided = sorted(self._pending.values(), key=lambda r: r.number)
        self._pending.clear()
        return undecided

    @staticmethod
    def _is_fence(record: OutboxRecord, error: KafkaError) -> bool:
        code = error.code()
        return code in _REFUSED or (code == _TOO_LARGE and record.size < _SMALL)


_LAST_WORDS_SECONDS: Final = 0.5
"""How long in-flight records may still be acknowledged by the old cluster."""
_ON_ITS_WAY: Final = KafkaError._PURGE_INFLIGHT  # noqa: SLF001  the constant's only name
_GIVEN_UP: Final = KafkaError._PURGE_QUEUE  # noqa: SLF001  likewise
_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb")


class Sending:
    """The current producer client and its unacknowledged records.

    Delivery reports are served by one thread at a time, and by none while the client is changed: a report
    that came too late would look like a record that was never sent.

    :param config: makes the configuration of a client for an endpoint
    :param resends: carry records over to the next cluster, instead of reporting them as failed
    """

    def __init__(
        self,
        watch: EndpointWatch,
        config: Callable[[Endpoint], dict[str, Any]],
        *,
        hold_seconds: float,
        resends: bool,
        only_errors: bool,
        more: dict[str, Any],
    ) -> None:
        self._watch, self._config, self._more = watch, config, more
        self._resends, self._only_errors = resends, only_errors
        self.outbox = Outbox(hold_seconds)
        self._serving, self._lock = threading.RLock(), threading.RLock()
        self._here = threading.local()
        self._generation = 0
        self._leaving = False
        self.client, self._identity, self.calls = self._open(watch.endpoint, 0)
        self.prove(KNOWN_SECONDS)

    @property
    def in_report(self) -> bool:
        """Whether this thread runs a delivery report now, inside of the client."""
        return getattr(self._here, "in_report", False)

    def put(self, record: OutboxRecord, most: int) -> None:
        """Add a record. Raises BufferError when there are too many, and what confluent-kafka raises."""
        with self._lock:
            if len(self.outbox) >= most:
                raise BufferError("Local: Queue full")
            record.number = self.outbox.number()
            if self.outbox.add(record):
                try:
                    self._send(record)
                except KafkaException as error:
                    # librdkafka has learned of a fence by ACL, and refuses at once instead of in a report.
                    if self.outbox.settle(record, error.args[0], monotonic()).final:
                        raise
                except BaseException:
                    self.outbox.drop(record)
                    raise

    def serve(self, work: Callable[[Any], int]) -> int:
        """Let the client call its callbacks. Raises WrongCluster if it has found another cluster."""
        with self._serving:
            try:
                self._identity.prove(again=True)
            except WrongCluster:  # what is queued must not go there
                self.client.purge(in_queue=True, in_flight=False, blocking=False)
                raise
            return served(lambda: work(self.client))

    def try_again(self) -> None:
        """What is held tries again; what was held too long is given up."""
        now = monotonic()
        with self._lock:
            self._send_all(self.outbox.due(now))
            given_up = self.outbox.expired(now)
        self.abandon(given_up)

    def prove(self, seconds: float = 0.0) -> None:
        """Let records go once the cluster has shown its id. Raises WrongCluster."""
        if self._identity.prove(seconds) and not self.outbox.is_open:
            with self._lock:
                self._send_all(self.outbox.open())

    def switch(self) -> Switch | None:
        """Go where the file says; None if another thread was quicker, or no client can be made."""
        with self._serving, self._lock:
            new = self._watch.newer(at_once=True)
            if new is None:
                return None
            old, left, calls = self._watch.endpoint, self.client, self.calls
            try:
                opened = self._open(new, self._generation + 1)
            except UNUSABLE as error:
                self._watch.cannot_follow(new, error)
                return None
            LOG.warning("from %s to %s, term %d", old.cluster, new.cluster, new.term)
            unsettled = self.leave()
            self._generation += 1
            self._watch.followed(new)
            self.client, self._identity, self.calls = opened
            resent = unsettled if self._resends else []
            for record in resent:
                self.outbox.add(record)
        in_background(f"close-{old.cluster}", partial(end_producer, left, calls.retire))
        if not self._resends:
            self.abandon(unsettled)
        self.prove(KNOWN_SECONDS)
        return Switch(old, new, len(resent), sum(r.uncertain for r in resent))

    def leave(self) -> list[OutboxRecord]:
        """Serve the client's last delivery reports; returns the undecided records, in their order."""
        with self._serving, self._lock:
            self._leaving = True
            try:
                # Queued records must not reach the old cluster any more; in-flight ones may be acknowledged.
                self.client.purge(in_queue=True, in_flight=False)
                self._last_words()
                self.client.purge()
                self._last_words()
            finally:
                self._leaving = False
            return self.outbox.leave()

    def _last_words(self) -> None:
        with suppress(KafkaException):  # a fatal error: the client that is left may be dead already
            served(lambda: self.client.flush(_LAST_WORDS_SECONDS))

    def purge(self, **what: bool) -> None:
        """As `Producer.purge`."""
        self.client.purge(**what)
        with self._lock:
            given_up = self.outbox.purge() if what.get("in_queue", True) else []
        self.abandon(given_up)

    def abandon(self, records: list[OutboxRecord]) -> None:
        """Report these records to the application as failed; they are not sent again."""
        for record in records:
            said = f"not acknowledged by {self._watch.endpoint.cluster} or the previous cluster"
            self._tell(record, record.error or KafkaError(_GIVEN_UP, said))

    def _open(self, endpoint: Endpoint, generation: int) -> Opened:
        config = self._config(endpoint)
        for name in _CALLBACKS:
            if callable(config.get(name)):
                config[name] = self._while_current(config[name], generation)
        client = Producer(config, **self._more)
        return Opened(client, ClusterIdCheck(client, endpoint), Calls())

    def _while_current(self, call: Callable[..., Any], generation: int) -> Callable[..., Any]:
        return unhindered(lambda *args: call(*args) if generation == self._generation else None)

    def _send(self, record: OutboxRecord) -> None:
        record.generation = self._generation
        given = {} if record.headers is None else {"headers": record.headers}
        self.client.produce(
            self._watch.endpoint.topic(record.topic),
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            on_delivery=unhindered(partial(self._reported, record, self._generation)),
            **given,
        )

    def _send_all(self, records: list[OutboxRecord]) -> None:
        for record in records:
            try:
                self._send(record)
            except (BufferError, KafkaException) as error:
                LOG.debug("not sent yet: %s", error)
                self.outbox.hold(record)

    def _reported(
        self, record: OutboxRecord, generation: int, error: KafkaError | None, message: Message | None
    ) -> None:
        """A delivery report of librdkafka's."""
        with self._lock:
            if not self.outbox.knows(record, generation):
                return
            record.message = message
            if self._leaving and error is not None:
                record.uncertain |= error.code() == _ON_ITS_WAY
                record.error = error
                return  # decided as soon as the cluster is left
            settled = self.outbox.settle(record, error, monotonic())
            self._send_all(settled.send)
        if settled.final:
            self._tell(record, error)

    def _tell(self, record: OutboxRecord, error: KafkaError | None) -> None:
        if record.call is None or (self._only_errors and error is None):
            return
        before, self._here.in_report = self.in_report, True
        try:
            record.call(error, record.message)
        finally:
            self._here.in_report = before
