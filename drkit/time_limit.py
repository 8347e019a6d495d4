"""A limit on the whole of some work: sockets, name services and file systems have none, or only per call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
import threading
from typing import TypeVar

from drkit import observe
from drkit.errors import DrkitError

T = TypeVar("T")


def begun(work: Callable[[], T]) -> Future[T]:
    """The future result of work, started now in its own thread.

    Nothing waits for its thread, not even the end of the process: a call that hangs in the system cannot be
    ended.
    """
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised where the result is asked for
            found.set_exception(error)

    threading.Thread(target=run, name="begun", daemon=True).start()
    return found


def in_time(seconds: float, work: Callable[[], T]) -> T:
    """What work returns or raises, if it ends within the time.

    :raises TimeoutError: the time is over; the work may continue, and take effect
    """
    return begun(work).result(seconds)


def within(seconds: float, function: Callable[[], object]) -> bool:
    """Run something that may hang on a dead cluster; False when it did not end in time or failed."""
    done = threading.Event()

    def run() -> None:
        try:
            function()
        except DrkitError as error:
            observe.error(error)
        else:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return done.is_set()
