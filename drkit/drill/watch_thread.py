"""Threads that look at production beside a drill: one begin and one end for all of them."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final, Self

_JOIN_SECONDS: Final = 5.0


class WatchThreads:
    """Work in threads, each until `stop` is set; use it in a ``with``.

    Nothing waits longer than a few seconds for them: a call to a dead cluster takes its time.
    """

    def __init__(self, *work: Callable[[], None]) -> None:
        self.stop = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
