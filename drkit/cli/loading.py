"""Loads a command's code when it runs: its help, and the help of drkit, need no client of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
import os
import signal
import threading
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""Exit code by which a shell reports a program ended by SIGINT."""


_leave_nothing: list[Callable[[], None]] = []


def work(module: str) -> Any:
    """Load a module and return it; a SIGINT or SIGTERM meanwhile ends the process with one line."""
    with ended_quietly():
        return import_module(module)


@contextmanager
def ended_quietly(leave_nothing: Callable[[], None] | None = None) -> Iterator[None]:
    """End with one line at a SIGINT or SIGTERM while a command is loaded: it has done nothing yet.

    :param leave_nothing: ends and removes what was started besides the loading
    """
    if leave_nothing is not None:
        _leave_nothing.append(leave_nothing)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Ignored signals stay ignored: a shell starts background commands with them ignored.
    before = {number: handler for number, handler in before.items() if handler not in {None, signal.SIG_IGN}}
    try:
        for number in before:
            signal.signal(number, _end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    for leave_nothing in _leave_nothing:
        leave_nothing()
    os.write(2, f"drkit: ended by {signal.Signals(number).name} before it began\n".encode())
    if number == signal.SIGINT:
        os._exit(INTERRUPTED)
    signal.signal(number, signal.SIG_DFL)  # a service manager treats an end by SIGTERM as clean
    signal.raise_signal(number)
