"""Wait for a condition with a deadline."""

from __future__ import annotations

from collections.abc import Callable
import threading
import time


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        pause.wait(0.05)
