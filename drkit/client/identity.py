"""Checks that the brokers are those of the endpoint's cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException

from drkit.client.errors import WrongCluster
from drkit.endpoint import Endpoint

KNOWN_SECONDS: Final = 1.0
"""Longer than a reachable cluster takes to tell its id."""


class ClusterIdCheck:
    """Compares the cluster id that librdkafka knows, also later: a client may find another cluster.

    With ``metadata.recovery.strategy=none`` it could not. But then one answer without brokers, as of a
    cluster that has just been unavailable, ends a client for ever: see docs/internal/upstream.md.
    """

    def __init__(self, client: Any, endpoint: Endpoint) -> None:
        self._ask: Callable[[float], str | None] = client.cluster_id
        self._endpoint, self._is_proven = endpoint, not endpoint.cluster_id
        self._other: str | None = None
        """The cluster that a proven client has found since: its positions mean nothing there or here."""

    def prove(self, seconds: float = 0.0, *, again: bool = False) -> bool:
        """Whether the cluster id is known and correct.

        :param seconds: how long to wait until it is known
        :param again: ask also if it was proven; librdkafka answers no question within its callbacks
        :raises WrongCluster: it is another cluster
        """
        cluster_id = self._other
        if self._endpoint.cluster_id and not cluster_id and (again or not self._is_proven):
            with suppress(KafkaException):
                cluster_id = self._ask(0.0 if self._is_proven else seconds)
        if cluster_id is None:
            return self._is_proven
        if cluster_id != self._endpoint.cluster_id:
            self._other = cluster_id if self._is_proven else None
            raise WrongCluster(
                f"{self._endpoint.bootstrap_servers} is not {self._endpoint.cluster}: the endpoint of term"
                f" {self._endpoint.term} means the cluster id {self._endpoint.cluster_id}, its brokers show"
                f" {cluster_id}"
            )
        self._is_proven = True
        return True
