"""Unacknowledged records: handed to the current client, held, or carried over to the next one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
import threading
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drkit.client.calls import served, unhindered
from drkit.client.identity import KNOWN_SECONDS, ClusterIdCheck
from drkit.client.outbox import Outbox, OutboxRecord
from drkit.client.switch import LOG, UNUSABLE, EndpointWatch, Switch, end_producer, in_background
from drkit.client.waiting import Calls, Opened
from drkit.clock import monotonic
from drkit.endpoint import Endpoint

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
        """Let the client call its callbacks."""
        with self._serving:
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
        if not self.outbox.is_open and self._identity.prove(seconds):
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
