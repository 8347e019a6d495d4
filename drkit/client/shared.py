"""A consumer that several threads use, and its end."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
import threading
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition, cimpl

from drkit.client.switch import CHECK_SECONDS
from drkit.clock import monotonic

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
