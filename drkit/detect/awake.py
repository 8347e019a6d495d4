"""A clock that does not advance while this process is stalled.

A suspended process (SIGSTOP, a paused machine, no processor for seconds) receives nothing meanwhile, and must
not take that for the silence of others. CLOCK_BOOTTIME advances while the machine is suspended, so a gap
between two readings shows every kind of stall. The wall clock is not used: it may jump.
"""

from __future__ import annotations

import threading
from typing import Final

from drkit.background import Background
from drkit.clock import Seconds, boottime

TICK_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 1.0
"""A longer gap between two ticks is a stall: an overloaded machine keeps ticks within it."""


class AwakeClock:
    """Seconds in which this process was able to look; monotonic. Callable from any thread.

    :param clock: counts suspended time too
    :param tick_seconds: the clock must be read at least this often, see :class:`Ticker`
    """

    def __init__(
        self,
        clock: Seconds = boottime,
        tick_seconds: float = TICK_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._clock = clock
        self._tick = tick_seconds
        self._longest = longest_seconds
        self._lock = threading.Lock()
        self._last = clock()
        self._awake = 0.0
        self.lost_seconds = 0.0
        """Total duration of the stalls since the start of this process."""
        self._stalled_at: float | None = None

    def now(self) -> float:
        """The time; the first call after a stall also detects it."""
        with self._lock:
            now = self._clock()
            gap, self._last = now - self._last, now
            stalled = gap > self._longest
            self._awake += self._tick if stalled else gap
            if stalled:
                self.lost_seconds += gap - self._tick
                self._stalled_at = self._awake
            return self._awake

    def stalled_since(self, when: float) -> bool:
        """Whether a stall ended after a time of this clock: measurements across it are invalid."""
        self.now()
        return self._stalled_at is not None and self._stalled_at >= when


class Ticker(Background):
    """Reads a clock periodically from its own thread, until :meth:`stop`."""

    def __init__(self, clock: AwakeClock, seconds: float = TICK_SECONDS) -> None:
        super().__init__("ticker")
        self._clock = clock
        self._seconds = seconds

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._clock.now()
