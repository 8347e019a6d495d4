"""Detects pauses of this process, after which its knowledge may be stale."""

from __future__ import annotations

from typing import Final

from drkit.clock import Seconds, boottime
from drkit.detect.awake import AwakeClock, Ticker

LONGEST_SECONDS: Final = 3.0
"""Longest pause that does not count: longer than on a busy machine, shorter than a takeover."""


class ProcessSuspended(Exception):
    """This process was paused since it read the journal: its next request may be stale.

    Not a :class:`drkit.errors.DrkitError`, so that no step treats it as a cluster's refusal.
    """


class Stall(Ticker):
    """Detects pauses of this process by a clock that counts suspended time. Use it in a ``with``."""

    def __init__(self, clock: Seconds = boottime, longest_seconds: float = LONGEST_SECONDS) -> None:
        super().__init__(AwakeClock(clock, longest_seconds=longest_seconds))
        self._known = 0.0

    def ask(self) -> None:
        """Check that the process was not paused. Raises ProcessSuspended: it was."""
        self._clock.now()
        if self._clock.lost_seconds > self._known:
            raise ProcessSuspended

    def renew(self) -> None:
        """Forget earlier pauses: the journal was read again."""
        self._clock.now()
        self._known = self._clock.lost_seconds
