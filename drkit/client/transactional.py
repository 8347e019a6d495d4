"""The transactional methods of a producer, which notice an endpoint change while they wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from functools import partial
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from drkit.client.calls import deadline_of
from drkit.client.errors import NotSent, TransactionCut
from drkit.client.identity import KNOWN_SECONDS
from drkit.client.sending import Sending
from drkit.client.switch import CHECK_SECONDS, EndpointWatch
from drkit.clock import monotonic
from drkit.endpoint import Endpoint

INIT_SECONDS: Final = 30.0
_PASSES: Final = frozenset({
    KafkaError._TIMED_OUT,  # noqa: SLF001  its only name
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
})  # fmt: skip
TURN_SECONDS: Final = 0.5
"""The longest single wait in librdkafka, in seconds; the same call continues afterwards."""


class Phase(Enum):
    """The state of a transaction."""

    NONE = "none"
    OPEN = "open"
    ENDING = "ending"
    """Its commit was requested."""
    CUT = "cut"
    """The endpoint changed meanwhile: the application must abort it."""


class Transaction:
    """The phase, and calls that look at the endpoint file while they wait.

    :param moved: the endpoint that replaces the current one, or None
    """

    def __init__(self, moved: Callable[[], Endpoint | None]) -> None:
        self._moved = moved
        self.phase = Phase.NONE
        self.initialized: object = None
        """The client whose transactions are initialized."""
        self._unknown = False
        self._where: Endpoint | None = None

    @property
    def is_open(self) -> bool:
        """True if a transaction is open, so that the client must not change."""
        return self.phase is not Phase.NONE

    def refuse_if_cut(self) -> None:
        """Check that the transaction can continue. Raises TransactionCut."""
        if self.phase in {Phase.OPEN, Phase.ENDING} and (new := self._moved()) is not None:
            self._unknown = self.phase is Phase.ENDING
            self.phase = Phase.CUT
            self._where = new
        if self.phase is Phase.CUT and self._where is not None:
            outcome = "; whether it was committed there is not known" if self._unknown else ""
            raise TransactionCut(
                f"clients moved to {self._where.cluster} (term {self._where.term}) without this transaction"
                f"{outcome}: abort it and begin a new one",
                unknown=self._unknown,
            )

    def call(self, work: Callable[[float], Any], timeout: float, longest: float = TURN_SECONDS) -> None:
        """Make a repeatable call of librdkafka, as short calls.

        :raises TransactionCut: the endpoint changed meanwhile
        """
        deadline = deadline_of(timeout)
        while True:
            self.refuse_if_cut()
            try:
                if has_ended(work, deadline, longest):
                    return
            except KafkaException:
                self.refuse_if_cut()
                raise


def has_ended(work: Callable[[float], Any], deadline: float, longest: float = TURN_SECONDS) -> bool:
    """Return whether a repeatable call has ended, or False if only its short call timed out.

    :raises KafkaException: it failed, or the deadline has passed
    """
    began = monotonic()
    try:
        work(max(0.0, min(longest, deadline - began)))
    except KafkaException as error:
        if not _goes_on(error) or monotonic() >= deadline:
            raise
    else:
        return True
    time.sleep(max(0.0, began + CHECK_SECONDS - monotonic()))  # the call may have failed at once
    return False


def _goes_on(error: KafkaException) -> bool:
    """Return whether to try again: the call timed out, or its error may pass (a loading coordinator)."""
    return bool(error.args[0].retriable() or error.args[0].code() in _PASSES)


class TransactionalCalls(ABC):
    """Transactional methods under confluent-kafka's names, for one thread only."""

    _sending: Sending
    _watch: EndpointWatch
    _transaction: Transaction | None

    @abstractmethod
    def _follow(self, *, at_once: bool = False) -> None:
        """Go to another cluster if the file says so and no transaction is open."""

    def _left(self, client: object) -> bool:
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
