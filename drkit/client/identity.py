"""Checks that the brokers are those of the endpoint's cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaException

from drkit.client.errors import WrongCluster
from drkit.endpoint import Endpoint

KNOWN_SECONDS: Final = 1.0
"""Longer than a reachable cluster takes to tell its id."""


class ClusterIdCheck:
    """Compares the cluster id once for each client, as soon as librdkafka knows it."""

    def __init__(self, client: Any, endpoint: Endpoint) -> None:
        self._ask: Callable[[float], str | None] = client.cluster_id
        self._endpoint = endpoint
        self._proven = not endpoint.cluster_id

    def prove(self, seconds: float = 0.0) -> bool:
        """Whether the cluster id is known and correct.

        :param seconds: how long to wait until it is known
        :raises WrongCluster: it is another cluster
        """
        if self._proven:
            return True
        try:
            found = self._ask(seconds)
        except KafkaException:
            return False
        if found is None:
            return False
        if found != self._endpoint.cluster_id:
            raise WrongCluster(
                f"{self._endpoint.bootstrap_servers} is not {self._endpoint.cluster}: the endpoint of term"
                f" {self._endpoint.term} means the cluster id {self._endpoint.cluster_id}, its brokers show"
                f" {found}"
            )
        self._proven = True
        return True
