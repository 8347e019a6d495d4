"""The transactional methods of a producer, which notice an endpoint change while they wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from drkit.client.calls import deadline_of
from drkit.client.errors import NotSent
from drkit.client.identity import KNOWN_SECONDS
from drkit.client.sending import Sending
from drkit.client.switch import EndpointWatch
from drkit.client.transaction import INIT_SECONDS, Phase, Transaction, has_ended


class TransactionalCalls(ABC):
    """Transactional methods under confluent-kafka's names, for one thread only."""

    _sending: Sending
    _watch: EndpointWatch
    _transaction: Transaction | None

    @abstractmethod
    def _follow(self, *, at_once: bool = False) -> None:
        """Go to another cluster if the file says so and no transaction is open."""

    def _left(self, client: object) -> bool:
        """Whether clients go to another cluster than this client's."""
        return client is not self._sending.client or self._watch.newer() is not None

    def _refuse_if_cut(self) -> None:
        """Before waiting on: an open transaction has no future once clients go elsewhere."""
        if self._transaction and self._transaction.phase is not Phase.ENDING and not self._sending.in_report:
            self._transaction.refuse_if_cut()

    @property
    def _txn(self) -> Transaction:
        if self._transaction is None:
            raise NotSent("the configuration has no transactional.id")
        return self._transaction

    def init_transactions(self, timeout: float = -1) -> None:
        """As `Producer.init_transactions`; continues on the new cluster when clients are sent there."""
        self._initialize(deadline_of(timeout))

    def _initialize(self, deadline: float) -> None:
        transaction = self._txn
        while True:
            self._follow()
            client = self._sending.client
            try:
                if has_ended(client.init_transactions, deadline):
                    transaction.initialized = client
                    return
            except (KafkaException, RuntimeError):
                if not self._left(client):
                    raise

    def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`; goes to the new cluster first if clients were sent there."""
        self._follow()
        if self._txn.initialized is not None and self._txn.initialized is not self._sending.client:
            self.init_transactions(INIT_SECONDS)
        self._sending.prove(KNOWN_SECONDS)
        if not self._sending.outbox.is_open:
            raise NotSent(f"{self._watch.endpoint.bootstrap_servers} has not told its cluster id yet")
        self._sending.client.begin_transaction()
        self._txn.phase = Phase.OPEN

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        """As `Producer.send_offsets_to_transaction`. Raises TransactionCut."""
        client, calls = self._sending.client, self._sending.calls

        def send(seconds: float) -> bool:
            client.send_offsets_to_transaction(positions, group_metadata, seconds)
            return True

        # librdkafka restarts it at each call, so one turn lasts the whole timeout: a far cluster needs it.
        self._txn.call(lambda s: calls.ask(send, s, partial(self._left, client)), timeout, float("inf"))

    def commit_transaction(self, timeout: float = -1) -> None:
        """As `Producer.commit_transaction`. Raises TransactionCut."""
        self._txn.refuse_if_cut()
        self._txn.phase = Phase.ENDING
        self._txn.call(self._sending.client.commit_transaction, timeout)
        self._txn.phase = Phase.NONE

    def abort_transaction(self, timeout: float = -1) -> None:
        """As `Producer.abort_transaction`; after a :class:`TransactionCut` it goes to the new cluster.

        It also does so if the transaction can no longer be aborted: a failover has ended it, and the client
        of the old cluster is fenced.
        """
        deadline, phase = deadline_of(timeout), self._txn.phase
        while True:
            client = self._sending.client
            if phase is not Phase.CUT and self._aborted(client, deadline):
                self._txn.phase = Phase.NONE
                return
            self._txn.phase = Phase.NONE
            self._follow(at_once=True)
            if self._sending.client is not client:
                self._initialize(deadline)
                return
            self._txn.phase = phase = Phase.OPEN  # the file leads back

    def _aborted(self, client: Any, deadline: float) -> bool:
        """Abort on this client; False if clients go elsewhere before it is done."""
        while True:
            try:
                if has_ended(client.abort_transaction, deadline):
                    return True
            except KafkaException:
                if self._watch.newer(at_once=True) is None:
                    raise
                return False
            if self._watch.newer() is not None:
                return False
