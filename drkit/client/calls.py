"""Run calls to a client with a deadline, and answer questions of the current client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Self, TypeVar

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from drkit.client.switch import CHECK_SECONDS
from drkit.clock import monotonic

T = TypeVar("T")


def deadline_of(timeout: float | None) -> float:
    """The time by which a call must return; confluent-kafka uses None and −1 for no limit."""
    return float("inf") if timeout is None or timeout < 0 else monotonic() + timeout


def turn(deadline: float) -> float:
    """Seconds to wait in librdkafka before the endpoint file is checked again."""
    return max(0.0, min(deadline - monotonic(), CHECK_SECONDS))


def positions(
    message: Message | None, offsets: Sequence[TopicPartition] | None
) -> list[TopicPartition] | None:
    """The offsets to commit; None for those of the current assignment."""
    if message is None:
        return None if offsets is None else list(offsets)
    if offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    error, offset = message.error(), message.offset()
    if error is not None:
        raise KafkaException(error)
    topic, partition = message.topic() or "", message.partition()
    return [TopicPartition(topic, -1 if partition is None else partition,
                           OFFSET_INVALID if offset is None else offset + 1)]  # fmt: skip


def served(work: Callable[[], T]) -> T:
    """The result of a call that serves callbacks. Raises KafkaException, also if that was cleared."""
    try:
        return work()
    except SystemError as error:  # "returned NULL without setting an exception"
        said = f"a fatal error of the client: {error}"
        raise KafkaException(KafkaError(KafkaError._FATAL, said, fatal=True)) from error  # noqa: SLF001  its only name


def unhindered(call: Callable[..., T]) -> Callable[..., T]:
    """A callback that works also while an exception waits to be raised; that is raised again at its end.

    The client library keeps calling back although a fatal error, or an exception of an earlier callback,
    waits to be raised. The first call into C then fails although its work was done: a lock would be taken
    and never released.
    """

    def called(*args: Any) -> T:
        waiting = _waiting()
        try:
            return call(*args)
        finally:
            if waiting is not None:
                raise waiting

    return called


def _waiting() -> BaseException | None:
    """Take the waiting exception from the interpreter, or None."""
    try:
        get_ident()  # by its own name: a module lookup may silently clear the waiting exception
    except SystemError as error:  # "returned a result with an exception set"
        return error.__cause__ or error
    return None


class ClusterQuestions(ABC):
    """Queries of every client, and its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Leave the cluster for good."""

    @abstractmethod
    def _asked(self, question: Callable[[Any, float], Any], timeout: float | None) -> Any:
        """The answer of the current client, which waits at most the seconds given to `question`."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Do what confluent-kafka's method of this name does."""
        given = {} if topic is None else {"topic": topic}
        return self._asked(lambda client, seconds: client.list_topics(timeout=seconds, **given), timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Do what confluent-kafka's method of this name does."""
        answer: str | None = self._asked(lambda client, seconds: client.cluster_id(seconds), timeout)
        return answer


class ConsumerQuestions(ClusterQuestions):
    """Queries of a consumer."""

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Do what `Consumer.committed` does. Raises EndpointMoved."""
        tps = list(partitions)
        answer: list[TopicPartition] = self._asked(lambda c, seconds: c.committed(tps, seconds), timeout)
        return answer

    def offsets_for_times(
        self, partitions: Sequence[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Do what `Consumer.offsets_for_times` does. Raises EndpointMoved."""
        tps = list(partitions)
        answer: list[TopicPartition] = self._asked(
            lambda c, seconds: c.offsets_for_times(tps, seconds), timeout
        )
        return answer

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float | None = None,
        cached: bool = False,  # noqa: FBT001, FBT002  confluent-kafka's signature
    ) -> tuple[int, int] | None:
        """Do what `Consumer.get_watermark_offsets` does. Raises EndpointMoved."""
        answer: tuple[int, int] | None = self._asked(
            lambda c, seconds: c.get_watermark_offsets(partition, seconds, cached), timeout
        )
        return answer
