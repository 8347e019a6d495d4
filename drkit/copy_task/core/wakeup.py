"""How one coroutine of a task tells the others that something has changed."""

from __future__ import annotations

from drkit.kafka.raw import EventLoop, Future


class Signal:
    """Wakes every coroutine that waits for something to change."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiters: list[Future] = []

    def set(self) -> None:
        """Wake those who wait."""
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.is_done:
                future.success(None)

    async def wait(self, seconds: float) -> None:
        """Wait for a change, at most some seconds."""
        future = Future()
        self._waiters.append(future)
        timer = self._loop.net.call_later(seconds, lambda: future.is_done or future.success(None))
        try:
            await future
        finally:
            self._loop.net.cancel(timer)
