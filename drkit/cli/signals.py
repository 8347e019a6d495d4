"""Ctrl-C and SIGTERM as an event that a long-running command waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
import signal
import threading
from types import FrameType
from typing import Final

from drkit.cli.talk import say

Handler = Callable[[int, FrameType | None], None]
ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that end a command in good order."""


def _interrupt() -> None:
    raise KeyboardInterrupt


def until_signalled() -> threading.Event:
    """An event that SIGINT or SIGTERM sets; a second one interrupts."""
    stop = threading.Event()
    setting(stop, _interrupt)
    return stop


def stopping_run() -> threading.Event:
    """Return an event that SIGINT, SIGTERM or SIGHUP sets: a failover or failback ends at its next step."""

    def told() -> None:
        say("stopping before the next step; a run that has opened the standby continues to its end")

    stop = threading.Event()
    signal.signal(signal.SIGHUP, setting(stop, _interrupt, told))
    return stop


@contextmanager
def interruptible() -> Iterator[None]:
    """While a question is asked, a signal interrupts at once."""
    before = {number: signal.signal(number, lambda *_: _interrupt()) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def setting(
    stop: threading.Event, twice: Callable[[], None], first: Callable[[], None] = lambda: None
) -> Handler:
    """Let SIGINT and SIGTERM set an event; returns their handler.

    :param twice: called for a signal that comes when the event is set, or is about to be
    :param first: called once, by another thread, when the event is set

    Setting an event takes its lock. A handler runs in the main thread, between any two steps of what that
    does: where it waits for the same event, it may hold this lock, and the handler would wait for ever. So a
    thread sets the event, and the handler tells it by a queue whose `put` may interrupt itself.
    """
    told: SimpleQueue[None] = SimpleQueue()
    asked = False

    def heard(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        # `asked` is read last: a second signal may come in any call, and nothing is called until it is set.
        if stop.is_set() or asked:
            twice()
        asked = True
        told.put(None)

    def set_when_told() -> None:
        told.get()
        stop.set()
        first()

    threading.Thread(target=set_when_told, name="signals", daemon=True).start()
    for number in ENDING:
        signal.signal(number, heard)
    return heard
