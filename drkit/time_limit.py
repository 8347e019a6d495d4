"""A limit on the whole of some work: sockets, name services and file systems have none, or only per call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
import threading
from typing import TypeVar

T = TypeVar("T")


def begun(work: Callable[[], T]) -> Future[T]:
    """The future result of work that runs from now on.

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

    :raises TimeoutError: the time is over; the work may still go on, and take effect
    """
    return begun(work).result(seconds)
