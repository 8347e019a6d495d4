"""Wait for a condition, and name what did not come true."""

from __future__ import annotations

from collections.abc import Callable
import threading
import time
from typing import TypeVar

T = TypeVar("T")


def eventually(
    condition: Callable[[], T | None], seconds: float = 60.0, what: str | Callable[[], str] = "the condition"
) -> T:
    """Wait until the condition is true and return what it gave.

    A condition that works hard is asked less often: what it waits for needs the processors too.
    """
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        worked = time.process_time()
        if found := condition():
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what() if callable(what) else what} did not come true in {seconds} s")
        pause.wait(min(0.5, max(0.02, 4 * (time.process_time() - worked))))


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        pause.wait(0.05)
