"""A consumer that several threads use, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
import threading
from typing import Any, Final, TypeVar

from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, TopicPartition, cimpl

from drkit.client.switch import CHECK_SECONDS
from drkit.clock import monotonic
from drkit.endpoint import Endpoint

T = TypeVar("T")
_CALLER: Final[ContextVar[int]] = getattr(cimpl, "_reentry_identity_var", ContextVar("caller", default=0))
"""The identity of a consumer's caller; versions before 2.16 do not check it."""
_SERVED: Final[ContextVar[object]] = ContextVar("served", default=None)
"""The consumer whose callback this thread runs."""
_LAST_CALLS_SECONDS: Final = 2.0
"""How long calls of other threads may still take when the cluster is left."""
_ANSWER_SECONDS: Final = 5.0
"""How long the coordinator of a cluster that is left may take to answer."""
_NO_ANSWER: Final = frozenset({
    KafkaError._TIMED_OUT, KafkaError._WAIT_COORD, KafkaError._TRANSPORT,  # noqa: SLF001  only names
    KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001  likewise
})  # fmt: skip
_CLOSED: Final = "Consumer closed"


class Shared:
    """A consumer whose calls do not wait for each other.

    Since its version 2.16 confluent-kafka lets one thread at a time into a consumer: while one waits for a
    commit, no other could leave the cluster. librdkafka itself takes calls of any thread. Calls under one
    identity are let in, as confluent-kafka's own asynchronous consumer does it.

    That switches off confluent-kafka's guard of `close`: a call that is in librdkafka while its handle is
    destroyed ends the process with a segmentation fault, or waits forever and holds the interpreter's lock.
    So calls are counted here: none begins after `close` has begun, and `close` waits for running ones.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._inside = 0
        self._ended = False
        self._change = threading.Condition()

    def __getattr__(self, name: str) -> Any:
        def called(*args: Any, **named: Any) -> Any:
            return self._call(name, args, named)

        setattr(self, name, called)  # the next call notices it at once
        return called

    def _call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with self._change:
            if self._ended and (self._client is None or _SERVED.get() is not self):
                raise RuntimeError(_CLOSED)
            client = self._client
            self._inside += 1
        before = _CALLER.set(id(self))
        try:
            return getattr(client, name)(*args, **named)
        finally:
            del client  # an exception keeps this frame, and the group would keep a member
            _CALLER.reset(before)
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    def serve(self, callback: Callable[[], T]) -> T:
        """Run a callback of this consumer; it may call the consumer also while that is being closed."""
        before = _SERVED.set(self)
        try:
            return callback()
        finally:
            _SERVED.reset(before)

    def refuse_own_callback(self) -> None:
        """Raises RuntimeError in a callback of this consumer: `close` would wait for the end of that."""
        if _SERVED.get() is self:
            raise RuntimeError("a consumer cannot be closed by its own callback")

    def close(self, idle: Callable[[], object], moved: Callable[[], bool]) -> None:
        """Leave the group and end, after the calls of other threads.

        When clients go to another cluster meanwhile, calls that have not ended in time keep the client: it
        ends with the last of them.

        :param idle: waits for open questions
        :param moved: whether clients go to another cluster
        """
        idle()
        if self._no_more_calls(moved):
            self._closed()
        self._client = None

    def leave(self, retire: Callable[[], object]) -> None:
        """End, after the calls of other threads; leave the group only if its coordinator answers.

        librdkafka repeats the commit of an offset without limit: `close` never returns from a coordinator
        that does not answer. Without `close` the client ends with its last reference, and its membership
        with the session.

        :param retire: refuses further questions, and waits for open ones
        """
        retire()
        if self._no_more_calls(lambda: True) and self._answers():
            self._closed()
        self._client = None

    def _no_more_calls(self, moved: Callable[[], bool]) -> bool:
        until = float("inf")
        with self._change:
            self._ended = True
            while self._inside and monotonic() < until:
                self._change.wait(CHECK_SECONDS)
                if moved():
                    until = min(until, monotonic() + _LAST_CALLS_SECONDS)
            return not self._inside

    def _closed(self) -> None:
        before = _CALLER.set(id(self))
        try:
            self._client.close()
        finally:
            _CALLER.reset(before)

    def _answers(self) -> bool:
        try:
            self._client.committed([TopicPartition("any", 0)], _ANSWER_SECONDS)
        except KafkaException as error:
            return error.args[0].code() not in _NO_ANSWER
        return True


class Closed:
    """Replaces a consumer that is closed, or is closing in the background."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(_CLOSED)


Rebalance = Callable[[Any, list[TopicPartition]], object]
_REBALANCE: Final = ("on_assign", "on_revoke", "on_lost")


class Selection:
    """Topics with callbacks, or partitions."""

    def __init__(self) -> None:
        self.topics: list[str] | None = None
        self.callbacks: dict[str, Rebalance] = {}
        self.partitions: list[TopicPartition] | None = None

    def subscribe(self, topics: Sequence[str], callbacks: dict[str, Rebalance | None]) -> None:
        """Select topics. Raises TypeError for an unknown callback."""
        if unknown := set(callbacks) - set(_REBALANCE):
            raise TypeError(f"unknown callback: {', '.join(sorted(unknown))}")
        self.topics, self.partitions = list(topics), None
        self.callbacks = {name: call for name, call in callbacks.items() if call is not None}

    def unsubscribe(self) -> None:
        """Select no topics."""
        self.topics, self.callbacks = None, {}

    def assign(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Select these partitions; under a subscription the group assigns them, so nothing is kept."""
        if self.topics is None:
            self.partitions = None if partitions is None else list(partitions)

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        """Select these partitions in addition."""
        self.assign([*(self.partitions or []), *partitions])

    def remove(self, partitions: Sequence[TopicPartition], here: Endpoint) -> None:
        """Remove these partitions, given by their names on this cluster or before the switch."""
        gone = {(tp.topic, tp.partition) for tp in partitions}
        remaining = [
            tp for tp in self.partitions or []
            if not {(tp.topic, tp.partition), (here.topic(tp.topic), tp.partition)} & gone
        ]  # fmt: skip
        self.assign(remaining)

    def topics_on(self, here: Endpoint) -> list[str] | None:
        """The topics' names on this cluster."""
        return None if self.topics is None else list(dict.fromkeys(map(here.topic, self.topics)))

    def partitions_on(self, here: Endpoint) -> list[TopicPartition] | None:
        """The partitions on this cluster, at the group's committed offset."""
        if self.partitions is None:
            return None
        return [TopicPartition(here.topic(tp.topic), tp.partition, OFFSET_STORED) for tp in self.partitions]


class ConsumerSelection(ABC):
    """The methods of a consumer that select what is read."""

    _selection: Selection
    _client: Any

    @property
    @abstractmethod
    def endpoint(self) -> Endpoint:
        """The cluster of the client."""

    @abstractmethod
    def _while_current(self, call: Rebalance) -> Rebalance:
        """A callback that does nothing once its client is left."""

    def subscribe(self, topics: Sequence[str], **callbacks: Rebalance | None) -> None:
        """Do what `Consumer.subscribe` does; callbacks get this consumer.

        Topic names from before a failover still work: the endpoint maps them to the new names. Expressions
        (``^…``) are not translated.
        """
        self._selection.subscribe(topics, callbacks)
        self._subscribe()

    def _subscribe(self) -> None:
        names = self._selection.topics_on(self.endpoint)
        if names is not None:
            wrapped = {name: self._while_current(call) for name, call in self._selection.callbacks.items()}
            self._client.subscribe(names, **wrapped)

    def unsubscribe(self) -> None:
        """Do what `Consumer.unsubscribe` does."""
        self._selection.unsubscribe()
        self._client.unsubscribe()

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Do what `Consumer.assign` does, with the present cluster's names and offsets.

        After a switch the same partitions continue at the group's committed offset; one without a committed
        offset yields a message with the error `_AUTO_OFFSET_RESET`, because its position is unknown.
        """
        self._selection.assign(partitions)
        self._client.assign(list(partitions))

    def unassign(self) -> None:
        """Do what `Consumer.unassign` does."""
        self._selection.assign(None)
        self._client.unassign()

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Do what `Consumer.incremental_assign` does; after a switch see `assign`."""
        self._selection.add(partitions)
        self._client.incremental_assign(list(partitions))

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Do what `Consumer.incremental_unassign` does."""
        self._selection.remove(partitions, self.endpoint)
        self._client.incremental_unassign(list(partitions))
