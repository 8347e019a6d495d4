"""Transactions of a producer that follows the endpoint file: one is never carried from cluster to cluster."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from drkit.client.calls import deadline_of
from drkit.client.errors import TransactionCut
from drkit.client.switch import CHECK_SECONDS
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
        """Whether a transaction is open, so that the client must not change."""
        return self.phase is not Phase.NONE

    def refuse_if_cut(self) -> None:
        """Check that the transaction can continue. Raises TransactionCut."""
        if self.phase in {Phase.OPEN, Phase.ENDING} and (new := self._moved()) is not None:
            self._unknown = self.phase is Phase.ENDING
            self.phase = Phase.CUT
            self._where = new
        if self.phase is Phase.CUT and self._where is not None:
            told = "; whether it was committed there is not known" if self._unknown else ""
            raise TransactionCut(
                f"clients moved to {self._where.cluster} (term {self._where.term}) without this transaction"
                f"{told}: abort it and begin a new one",
                unknown=self._unknown,
            )

    def call(self, work: Callable[[float], Any], timeout: float, longest: float = TURN_SECONDS) -> None:
        """Make a repeatable call of librdkafka, in short turns.

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
    """Whether a call that may be repeated has ended; False when only its turn is over.

    :raises KafkaException: it has failed, or the time of all turns is over
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
    """Whether to try again: the turn is over, or an error may pass, as of a coordinator that loads."""
    return bool(error.args[0].retriable() or error.args[0].code() in _PASSES)
