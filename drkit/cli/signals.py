"""Ctrl-C and SIGTERM as an event that a long-running command waits for."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def until_signalled() -> threading.Event:
    """An event that SIGINT or SIGTERM sets; a second SIGINT interrupts as usual."""
    stop = threading.Event()

    def heard(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)
    return stop
