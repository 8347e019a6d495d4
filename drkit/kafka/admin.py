"""One cluster for administration: a thin class over confluent-kafka whose errors are drkit's.

No group calls here: a client with an unanswered group call aborts the process when a frozen broker revives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthenticated, NotAuthorized, Refused
from drkit.kafka.connect import CONNECT_SECONDS, Broker, connect
from drkit.kafka.transport import may_send

T = TypeVar("T")
CALL_SECONDS: Final = 30.0

_KINDS: Final[Mapping[int, type[DrkitError]]] = {
    **dict.fromkeys(
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        NotAuthorized,
    ),
    **dict.fromkeys((KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED), NotAuthenticated),  # noqa: SLF001  the constant's only name
    **dict.fromkeys(
        (
            KafkaError._TRANSPORT,  # noqa: SLF001  likewise
            KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  likewise
            KafkaError._TIMED_OUT,  # noqa: SLF001  likewise
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.NOT_CONTROLLER,
        ),
        ClusterUnreachable,
    ),
}
_REACH: Final = "see whether its brokers run and answer from here: drkit config check --connect"
_HINTS: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant drkit's principal the operation on this topic (ACL)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant drkit's principal the operation on the cluster (ACL)",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant drkit's principal the operation on this group (ACL)",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant drkit's principal WRITE on the transactional ids"
    " that begin with drkit. (ACL)",
    **dict.fromkeys((KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT), _REACH),  # noqa: SLF001  the constants' only names
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication_factor of the flow to what the target can hold",
    KafkaError.POLICY_VIOLATION: "the cluster's create or alter policy forbids this: ask its operators",
}


class Cluster:
    """A connected cluster. Made by :meth:`connect`; needs no closing."""

    def __init__(
        self, settings: ClusterSettings, admin: AdminClient, cluster_id: str, brokers: list[Broker]
    ) -> None:
        self.settings = settings
        self.alias = settings.alias
        self.admin = admin
        self.cluster_id = cluster_id
        self.brokers = brokers

    @classmethod
    def connect(cls, settings: ClusterSettings, timeout_seconds: float = CONNECT_SECONDS) -> Cluster:
        """Connect and ask for the cluster's id and brokers.

        :raises ConfigError: client properties that cannot be
        :raises NotAuthenticated: wrong credentials, or TLS that does not fit
        :raises ClusterUnreachable: no broker answered in time
        """
        admin, answer = connect(settings, timeout_seconds)
        return cls(settings, admin, answer.cluster_id, answer.brokers)

    def wait(self, future: Future[T], what: str, where: str = "") -> T:
        """The result of an admin call, or its error as one of drkit's.

        :param what: the call in words, for the error
        :param where: topic or broker concerned
        """
        try:
            return future.result(CALL_SECONDS)
        except KafkaException as error:
            raise self.error(error.args[0], what, where) from error
        except TimeoutError as error:
            raise self._silent(what, where) from error

    def refused_with(self, code: int, future: Future[Any], what: str, where: str = "") -> bool:
        """Whether an admin call ended with one certain error of Kafka's.

        :raises ClusterUnreachable: it has not ended in time
        """
        try:
            error = future.exception(CALL_SECONDS)
        except TimeoutError as late:
            raise self._silent(what, where) from late
        return isinstance(error, KafkaException) and error.args[0].code() == code

    def _silent(self, what: str, where: str) -> ClusterUnreachable:
        evidence = f"no answer in {CALL_SECONDS:.0f} s"
        return ClusterUnreachable(
            "cluster_request_failed", where=self._at(where), evidence=evidence, hint=_REACH, what=what
        )

    def call(self, what: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """A blocking or future-making call whose own KafkaException is translated too."""
        may_send()
        try:
            return function(*args, **kwargs)
        except KafkaException as error:
            raise self.error(error.args[0], what) from error

    def error(self, error: KafkaError, what: str, where: str = "") -> DrkitError:
        """A Kafka error as one of drkit's."""
        return _KINDS.get(error.code(), Failed)(
            "cluster_request_failed",
            where=self._at(where),
            evidence=f"{error.name()} ({error.code()}): {error.str()}",
            hint=_HINTS.get(error.code(), ""),
            what=what,
        )

    def _at(self, where: str) -> str:
        return f"{self.alias}: {where}" if where else self.alias


def refuse_same_cluster(source: Cluster, target: Cluster) -> None:
    """Copying a cluster onto itself would never end.

    :raises Refused: both aliases lead to one cluster
    """
    if source.cluster_id == target.cluster_id:
        raise Refused(
            "clusters_identical",
            where=f"{source.settings.bootstrap_servers} and {target.settings.bootstrap_servers}",
            evidence=f"both have the cluster id {source.cluster_id}",
            source=source.alias,
            target=target.alias,
        )
