"""Whether this process stood still, so that what it decided by may be old."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from drkit.clock import Seconds, boottime
from drkit.detect.awake import AwakeClock, Ticker

LONGEST_SECONDS: Final = 3.0
"""A longer pause counts: a busy machine keeps within it, and a takeover needs longer."""


class StoodStill(Exception):
    """This process stood still since the journal was read: what it is about to send may be old.

    No :class:`drkit.errors.DrkitError`: no step may take it for the refusal of a cluster.
    """


class Stall:
    """Notices pauses of this process by a clock that counts suspended time too. Use it in a ``with``."""

    def __init__(self, clock: Seconds = boottime, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._clock = AwakeClock(clock, longest_seconds=longest_seconds)
        self._ticker = Ticker(self._clock)
        self._known = 0.0

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.stop()

    def ask(self) -> None:
        """Nothing, if the process has worked on without a pause.

        :raises StoodStill: it has not
        """
        self._clock.now()
        if self._clock.lost_seconds > self._known:
            raise StoodStill

    def renew(self) -> None:
        """What is known was read again just now."""
        self._clock.now()
        self._known = self._clock.lost_seconds
