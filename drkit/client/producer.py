"""A producer that follows the endpoint file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
import os
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import KafkaException

from drkit.client.calls import ClusterQuestions, deadline_of, turn
from drkit.client.errors import NotSent, TransactionCut
from drkit.client.sending import Delivered, OutboxRecord, Sending
from drkit.client.switch import LOG, EndpointWatch, OnSwitch, configuration, end_producer, in_background
from drkit.client.transactional import Transaction, TransactionalCalls
from drkit.client.waiting import Unanswered
from drkit.clock import Millis, monotonic, wall_ms
from drkit.endpoint import Endpoint

T = TypeVar("T")
HOLD_SECONDS: Final = 600.0
_MOST: Final = 100_000
"""librdkafka's own default of queue.buffering.max.messages."""


AT_ONCE: Final = frozenset({"set_sasl_credentials"})
"""Methods that librdkafka answers by itself, without its cluster; they reach the current client."""


class FailoverProducer(TransactionalCalls, ClusterQuestions):
    """confluent-kafka's `Producer`, on the cluster that the endpoint file names.

    Every method checks the file, at most ten times a second; call `poll` regularly, as confluent-kafka
    requires anyway. When the file names another cluster, records that the old one has not acknowledged are
    sent to the new one in their order, or reported as failed (`unacknowledged`): each record gets exactly one
    delivery report. In-flight records may exist on the old cluster too (:attr:`Switch.uncertain`).

    A cluster that is fenced for a failover refuses records. They are held, in the order of their topic, and
    sent when the fence is lifted or the endpoint changes; after `hold_seconds` they are reported as failed.

    A transaction is never carried over: its next call raises :class:`TransactionCut`; after
    `abort_transaction()` the producer is on the new cluster. In transactions nothing is held.

    Threads: all methods may be called from any thread, but transactions belong to one.

    :param config: as for `Producer`, without `bootstrap.servers`
    :param endpoint: the endpoint file
    :param clusters: alias of a cluster → properties for it alone, such as credentials
    :param on_switch: called with a :class:`Switch` when the producer is on the new cluster
    :raises ConfigError: there is no endpoint in the file, or one that is not to be followed
    :raises WrongCluster: the endpoint leads to another cluster than it says
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        endpoint: str | os.PathLike[str],
        clusters: Mapping[str, Mapping[str, Any]] | None = None,
        on_switch: OnSwitch | None = None,
        unacknowledged: Literal["resend", "fail"] = "resend",
        hold_seconds: float = HOLD_SECONDS,
        wall: Millis = wall_ms,
        **more: Any,
    ) -> None:
        given = dict(config)
        self._default_call: Delivered | None = given.pop("on_delivery", None)
        only_errors = bool(given.pop("delivery.report.only.error", False))
        self._most = int(given.get("queue.buffering.max.messages", _MOST))
        self._on_switch, self._wall, self._closed = on_switch, wall, False
        self._watch = EndpointWatch(endpoint, given, clusters)
        transactional = "transactional.id" in given
        self._transaction = Transaction(self._watch.newer) if transactional else None
        self._sending = Sending(
            self._watch,
            partial(configuration, given, clusters or {}),
            hold_seconds=0.0 if transactional else hold_seconds,
            resends=unacknowledged == "resend" and not transactional,
            only_errors=only_errors,
            more=more,
        )

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that the producer is on."""
        return self._watch.endpoint

    @property
    def held(self) -> int:
        """The number of records that wait because the cluster refuses them as a fence does."""
        return self._sending.outbox.held

    def __len__(self) -> int:
        return len(self._sending.outbox)

    def __bool__(self) -> bool:
        return True

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Any = None,
        *,
        callback: Delivered | None = None,
    ) -> None:
        """As `Producer.produce`.

        :raises BufferError: too many records are unacknowledged
        :raises TransactionCut: the transaction cannot continue
        :raises WrongCluster: the endpoint leads to another cluster than it says
        """
        self._follow()
        if self._transaction:
            self._transaction.refuse_if_cut()
        call = on_delivery or callback or self._default_call
        record = OutboxRecord(
            number=0,
            topic=topic,
            value=value,
            key=key,
            partition=partition,
            timestamp=timestamp or self._wall(),
            headers=headers,
            call=call,
            born=monotonic(),
        )
        self._sending.put(record, self._most)

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[Mapping[str, Any]],
        partition: int = -1,
        on_delivery: Delivered | None = None,
    ) -> int:
        """As `Producer.produce_batch`, record by record."""
        for one in messages:
            where, call = one.get("partition", partition), one.get("callback", on_delivery)
            stamp = one.get("timestamp", 0)
            self.produce(topic, one.get("value"), one.get("key"), where, call, stamp)
        return len(messages)

    def poll(self, timeout: float | None = None) -> int:
        """As `Producer.poll`. Raises WrongCluster, or TransactionCut where it would wait."""
        deadline, served = deadline_of(timeout), 0
        while True:
            self._follow()
            served += self._sending.serve(lambda client: client.poll(turn(deadline)))
            if served or monotonic() >= deadline:
                return served
            self._refuse_if_cut()

    def flush(self, timeout: float = -1) -> int:
        """As `Producer.flush`; what is held counts as not delivered. Raises WrongCluster, TransactionCut."""
        deadline = deadline_of(timeout)
        while len(self):
            self._follow()
            waits = self._sending.serve(lambda client: client.flush(turn(deadline)))
            if not waits and len(self):  # all records are held: librdkafka has nothing to wait for
                self._sending.serve(lambda client: client.poll(turn(deadline)))
            if monotonic() >= deadline:
                break
            if len(self):
                self._refuse_if_cut()
        return len(self)

    def purge(self, *which: bool, **more: bool) -> None:
        """As `Producer.purge`; what is held belongs to the queue."""
        names = ("in_queue", "in_flight", "blocking")
        self._sending.purge(**dict(zip(names, which, strict=False)), **more)

    def close(self, timeout: float = -1) -> None:
        """Deliver what can be delivered in this time, report the rest as failed, and end.

        The client itself is closed in the background: this may take a minute while the cluster hangs.
        """
        if self._closed:
            return
        try:
            self.flush(timeout)
        except TransactionCut as cut:
            LOG.info("closed in a transaction: %s", cut)
        finally:
            self._closed = True
            unsettled = self._sending.leave()
            end = partial(end_producer, self._sending.client, self._sending.calls.retire)
            in_background("close-producer", end)
            self._sending.abandon(unsettled)

    def _follow(self, *, at_once: bool = False) -> None:
        """Go to another cluster if the file says so, and try again what is held."""
        if self._closed:
            raise NotSent("the producer is closed")
        if self._sending.in_report:
            return
        busy = self._transaction is not None and self._transaction.is_open
        if not busy and self._watch.newer(at_once=at_once) is not None:
            done = self._sending.switch()
            if done is not None and self._on_switch is not None:
                self._on_switch(done)
        self._sending.prove()
        self._sending.try_again()

    def _asked(self, question: Callable[[Any, float], T], timeout: float | None) -> T:
        deadline = deadline_of(timeout)
        while True:
            self._follow()
            client, calls = self._sending.client, self._sending.calls
            rest = max(0.0, deadline - monotonic())
            try:
                return calls.ask(partial(question, client), rest, partial(self._left, client))
            except Unanswered:  # the next turn asks the new cluster
                if self._sending.in_report:
                    raise
                self._refuse_if_cut()
            except (KafkaException, RuntimeError):
                if client is self._sending.client:
                    raise

    def __getattr__(self, name: str) -> Any:
        if name not in AT_ONCE:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self._sending.client, name)
