"""What the clients raise besides confluent-kafka's own errors; all are KafkaExceptions."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class WrongCluster(KafkaException):
    """The brokers at the endpoint have another cluster id: a host name leads elsewhere."""

    def __init__(self, said: str) -> None:
        super().__init__(KafkaError(KafkaError._INVALID_ARG, said, fatal=True))  # noqa: SLF001  its only name


class FromAnotherCluster(KafkaException):
    """An offset of the previous cluster must not be committed on the current one."""

    def __init__(self, said: str) -> None:
        super().__init__(KafkaError(KafkaError._INVALID_ARG, said))  # noqa: SLF001  its only name


class EndpointMoved(KafkaException):
    """Clients go to another cluster, and the one that a consumer's call waits for does not answer.

    Nothing of the call is sent to the new cluster. Call ``poll`` or ``consume``: reading continues there at
    the group's position, and what was read since then comes again. ``args[0].code()`` is ``_TIMED_OUT``.
    """

    def __init__(self, said: str) -> None:
        super().__init__(KafkaError(KafkaError._TIMED_OUT, said))  # noqa: SLF001  its only name


class TransactionCut(KafkaException):
    """The clients were sent to another cluster while a transaction was open.

    Call ``abort_transaction()``, rewind what was consumed for it, and begin again on the new cluster.
    ``args[0].txn_requires_abort()`` is true, as for a transaction that confluent-kafka itself wants aborted.

    :param unknown: its commit was requested and it is unknown whether the old cluster carried it out
    """

    def __init__(self, said: str, *, unknown: bool = False) -> None:
        super().__init__(KafkaError(KafkaError._STATE, said, txn_requires_abort=True))  # noqa: SLF001  likewise
        self.unknown = unknown


class NotSent(KafkaException):
    """The producer is closed, or cannot begin on the new cluster."""

    def __init__(self, said: str) -> None:
        super().__init__(KafkaError(KafkaError._STATE, said))  # noqa: SLF001  its only name
