"""Queries of clients to their cluster, under confluent-kafka's names. They notice an endpoint change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import TopicPartition


class ClusterQuestions(ABC):
    """Queries of every client."""

    @abstractmethod
    def _asked(self, question: Callable[[Any, float], Any], timeout: float | None) -> Any:
        """The answer of the current client, which waits at most the seconds given to `question`."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """As confluent-kafka's method of this name."""
        given = {} if topic is None else {"topic": topic}
        return self._asked(lambda client, seconds: client.list_topics(timeout=seconds, **given), timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """As confluent-kafka's method of this name."""
        found: str | None = self._asked(lambda client, seconds: client.cluster_id(seconds), timeout)
        return found


class ConsumerQuestions(ClusterQuestions):
    """Queries of a consumer."""

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """As `Consumer.committed`. Raises EndpointMoved."""
        asked = list(partitions)
        found: list[TopicPartition] = self._asked(lambda c, seconds: c.committed(asked, seconds), timeout)
        return found

    def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """As `Consumer.offsets_for_times`. Raises EndpointMoved."""
        asked = list(partitions)
        found: list[TopicPartition] = self._asked(
            lambda c, seconds: c.offsets_for_times(asked, seconds), timeout
        )
        return found

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float | None = None,
        cached: bool = False,  # noqa: FBT001, FBT002  confluent-kafka's signature
    ) -> tuple[int, int] | None:
        """As `Consumer.get_watermark_offsets`. Raises EndpointMoved."""
        found: tuple[int, int] | None = self._asked(
            lambda c, seconds: c.get_watermark_offsets(partition, seconds, cached), timeout
        )
        return found
