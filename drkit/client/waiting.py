"""Calls that wait for a cluster. They run in a thread of their own: the caller sees the endpoint change."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
import threading
from typing import Any, Final, Generic, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException

from drkit.client.calls import deadline_of
from drkit.client.identity import ClusterIdCheck
from drkit.client.switch import CHECK_SECONDS
from drkit.clock import monotonic

T = TypeVar("T")
LEAVE_SECONDS: Final = 2.0
"""How long a cluster that is being left may still answer a call."""
ASK_SECONDS: Final = 30.0
"""The longest single query in librdkafka, in seconds; it is repeated while the call has time."""
_TIMED_OUT: Final = KafkaError._TIMED_OUT  # noqa: SLF001  its only name
_FAIL: Final = KafkaError._FAIL  # noqa: SLF001  likewise
_RAISED: Final = (KafkaException, RuntimeError, TypeError, ValueError, ArithmeticError)
"""What confluent-kafka raises; callbacks run in the calling thread and raise there."""
_HERE: Final = threading.local()


class Unanswered(KafkaException):
    """The endpoint changed, and the cluster that is being left has not answered in time."""

    def __init__(self) -> None:
        super().__init__(KafkaError(_TIMED_OUT, "no answer from the cluster that is being left"))


class _Call(Generic[T]):
    """One call in its thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._events: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._result: list[T] = []
        self._failed: list[Exception] = []
        self.left = False
        """The caller does not wait for the call any more."""

    def run(self) -> None:
        """Run the call in its own thread."""
        _HERE.call = self
        try:
            self._result.append(self._work())
        except _RAISED as error:
            self._failed.append(error)
        finally:
            self._events.put(None)

    def ended(self, seconds: float) -> bool:
        """Wait this long, or serve one callback; returns whether the call has ended."""
        try:
            event = self._events.get(timeout=seconds)
        except Empty:
            return False
        if event is None:
            return True
        event()
        return False

    def result(self) -> T:
        """The call's result, after its end. Raises what the call raised."""
        if self._failed:
            raise self._failed[0]
        if not self._result:
            raise KafkaException(KafkaError(_FAIL, "the call ended without an answer"))
        return self._result[0]

    def in_caller(self, work: Callable[[], object]) -> object:
        """The result of `work`, which the waiting thread runs; None once it has left."""
        done, found = threading.Event(), list[object]()

        def run() -> None:
            try:
                found.append(work())
            finally:
                done.set()

        self._events.put(run)
        while not self.left and not done.wait(CHECK_SECONDS):
            pass
        return found[0] if found else None


def in_caller(work: Callable[[], object]) -> object:
    """Run a callback in the thread that waits for the call which serves it."""
    call: _Call[Any] | None = getattr(_HERE, "call", None)
    return work() if call is None else call.in_caller(work)


class Calls:
    """The waiting calls of one client."""

    def __init__(self) -> None:
        self._asking = 0
        self._retired = False
        self._change = threading.Condition()

    def wait(self, work: Callable[[], T], moved: Callable[[], bool], seconds: float = 0.0) -> T:
        """The result of a call that may hang; its callbacks run in this thread.

        :param moved: whether clients go to another cluster
        :param seconds: how long to wait for the call after that
        :raises Unanswered: this time is over; the call runs on in its thread until its client is closed
        """
        return self._wait(_Call(work), moved, seconds)

    def ask(
        self,
        question: Callable[[float], T],
        timeout: float | None,
        moved: Callable[[], bool],
        seconds: float = 0.0,
    ) -> T:
        """The answer to a question that may be repeated: None or a timeout is no answer. See `wait`.

        :param question: asks, and waits at most this long
        """
        deadline = deadline_of(timeout)

        def over() -> bool:
            return call.left or monotonic() >= deadline

        def answer() -> T:
            while True:
                try:
                    found = question(max(0.0, min(deadline - monotonic(), ASK_SECONDS)))
                except KafkaException as error:
                    if error.args[0].code() != _TIMED_OUT or over():
                        raise
                else:
                    if found is not None or over():
                        return found

        def work() -> T:
            try:
                return answer()
            finally:
                self._count(-1)

        call: _Call[T] = _Call(work)
        self._count(1)
        return self._wait(call, moved, seconds)

    def retire(self) -> None:
        """The client is left: refuse further questions, and wait for open ones."""
        with self._change:
            self._retired = True
        self.idle()

    def idle(self) -> None:
        """Wait for open questions: librdkafka must not be destroyed while one of its functions runs."""
        with self._change:
            self._change.wait_for(lambda: not self._asking, ASK_SECONDS + 1)

    @staticmethod
    def _wait(call: _Call[T], moved: Callable[[], bool], seconds: float) -> T:
        run = partial(copy_context().run, call.run)  # in a callback: calls that it may make
        threading.Thread(target=run, name="waiting-call", daemon=True).start()
        until: float | None = None
        try:
            while not call.ended(CHECK_SECONDS if until is None else _rest(until)):
                if until is None and moved():
                    until = monotonic() + seconds
                if until is not None and monotonic() >= until:
                    raise Unanswered
        finally:
            call.left = True
        return call.result()

    def _count(self, more: int) -> None:
        with self._change:
            if more > 0 and self._retired:
                raise Unanswered
            self._asking += more
            self._change.notify_all()


class Opened(NamedTuple):
    """A client of one cluster."""

    client: Any
    identity: ClusterIdCheck
    calls: Calls


def _rest(until: float) -> float:
    return max(0.0, min(until - monotonic(), CHECK_SECONDS))
