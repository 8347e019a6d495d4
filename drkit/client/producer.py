"""A producer that goes where the endpoint file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
import os
from types import TracebackType
from typing import Any, Final, Literal, Self

from confluent_kafka import KafkaException

from drkit.client.calls import deadline_of, turn
from drkit.client.errors import NotSent
from drkit.client.identity import KNOWN_SECONDS
from drkit.client.outbox import Delivered, Record
from drkit.client.sending import Sending
from drkit.client.switch import EndpointWatch, OnSwitch, configuration, end_producer, in_background
from drkit.client.transaction import INIT_SECONDS, Phase, Transaction
from drkit.clock import Millis, monotonic, wall_ms
from drkit.endpoint import Endpoint

HOLD_SECONDS: Final = 600.0
_MOST: Final = 100_000
"""librdkafka's own default of queue.buffering.max.messages."""


class FailoverProducer:
    """confluent-kafka's `Producer`, on the cluster that the endpoint file names.

    Every method looks at the file, ten times a second at the most; call `poll` regularly, as confluent-kafka
    asks anyway. When the file names another cluster, records that the old one has not acknowledged are sent
    to the new one in their order, or reported as failed (`unacknowledged`): each record gets exactly one
    delivery report. Those that were on their way may stand on the old cluster too (:attr:`Switch.uncertain`).

    A cluster that is fenced for a failover refuses records. They are held, in the order of their topic, and
    go when the fence is lifted or the endpoint changes; after `hold_seconds` they are reported as failed.

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
        self._on_switch, self._wall = on_switch, wall
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
        """Where it is now."""
        return self._watch.endpoint

    @property
    def held(self) -> int:
        """How many records wait because the cluster refuses them as a fence does."""
        return self._sending.outbox.held

    def __len__(self) -> int:
        return len(self._sending.outbox)

    # -- records ------------------------------------------------------------------------------------

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
        :raises TransactionCut: the transaction cannot go on
        :raises WrongCluster: the endpoint leads to another cluster than it says
        """
        self._follow()
        if self._transaction:
            self._transaction.refuse_if_cut()
        call = on_delivery or callback or self._default_call
        record = Record(
            0, topic, value, key, partition, timestamp or self._wall(), headers, call, monotonic()
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
        """As `Producer.poll`. Raises WrongCluster."""
        deadline, served = deadline_of(timeout), 0
        while True:
            self._follow()
            served += self._sending.serve(lambda client: client.poll(turn(deadline)))
            if served or monotonic() >= deadline:
                return served

    def flush(self, timeout: float = -1) -> int:
        """As `Producer.flush`; what is held counts as not delivered. Raises WrongCluster."""
        deadline = deadline_of(timeout)
        while len(self):
            self._follow()
            waits = self._sending.serve(lambda client: client.flush(turn(deadline)))
            if not waits and len(self):  # all of it is held: librdkafka has nothing to wait for
                self._sending.serve(lambda client: client.poll(turn(deadline)))
            if monotonic() >= deadline:
                break
        return len(self)

    def purge(self, *which: bool, **more: bool) -> None:
        """As `Producer.purge`; what is held belongs to the queue."""
        names = ("in_queue", "in_flight", "blocking")
        self._sending.purge(**dict(zip(names, which, strict=False)), **more)

    def close(self, timeout: float = -1) -> None:
        """Deliver what can be delivered in this time, report the rest as failed, and end.

        The client itself is closed in the background: it may take a minute while the cluster stands still.
        """
        self.flush(timeout)
        self._sending.abandon(self._sending.leave())
        in_background("close-producer", partial(end_producer, self._sending.client))

    def _follow(self, *, at_once: bool = False) -> None:
        """Go to another cluster if the file says so, and try again what is held."""
        if self._sending.in_report:
            return
        busy = self._transaction is not None and self._transaction.is_open
        if not busy and self._watch.newer(at_once=at_once) is not None:
            done = self._sending.switch()
            if done is not None and self._on_switch is not None:
                self._on_switch(done)
        self._sending.prove()
        self._sending.try_again()

    # -- transactions -------------------------------------------------------------------------------

    @property
    def _txn(self) -> Transaction:
        if self._transaction is None:
            raise NotSent("the configuration has no transactional.id")
        return self._transaction

    def init_transactions(self, timeout: float = -1) -> None:
        """As `Producer.init_transactions`."""
        self._follow()
        self._txn.call(self._sending.client.init_transactions, timeout)
        self._txn.initialized = self._sending.client

    def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`; goes to the new cluster first if clients were sent there."""
        self._follow()
        if self._txn.initialized is not None and self._txn.initialized is not self._sending.client:
            self.init_transactions(INIT_SECONDS)
        self._sending.prove(KNOWN_SECONDS)
        if not self._sending.outbox.is_open:
            raise NotSent(f"{self.endpoint.bootstrap_servers} has not told its cluster id yet")
        self._sending.client.begin_transaction()
        self._txn.phase = Phase.OPEN

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        """As `Producer.send_offsets_to_transaction`. Raises TransactionCut."""
        send = self._sending.client.send_offsets_to_transaction
        self._txn.call(lambda seconds: send(positions, group_metadata, seconds), timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        """As `Producer.commit_transaction`. Raises TransactionCut."""
        self._txn.refuse_if_cut()
        self._txn.phase = Phase.ENDING
        self._txn.call(self._sending.client.commit_transaction, timeout)
        self._txn.phase = Phase.NONE

    def abort_transaction(self, timeout: float = -1) -> None:
        """As `Producer.abort_transaction`; behind a :class:`TransactionCut` it goes to the new cluster.

        So does it where the transaction cannot be aborted any more: a failover has ended it, and the client
        of the old cluster is fenced.
        """
        left, was_cut = self._sending.client, self._txn.phase is Phase.CUT
        if not was_cut:
            try:
                left.abort_transaction(timeout)
            except KafkaException:
                if self._watch.newer(at_once=True) is None:
                    raise
            else:
                self._txn.phase = Phase.NONE
                return
        self._txn.phase = Phase.NONE
        self._follow(at_once=True)
        if self._sending.client is not left:
            self.init_transactions(timeout)
        elif was_cut:
            left.abort_transaction(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sending.client, name)
