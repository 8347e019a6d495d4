"""A token bucket: how many bytes a copy task may fetch, and when the next ones. Pure."""

from __future__ import annotations

from typing import Final

from drkit.clock import Seconds

_BURST_SECONDS: Final = 1.0
"""An idle task saves up tokens for this time."""


class Throttle:
    """Bytes per second, as a bucket that may become negative: a fetch is accounted for after its answer.

    Over any span of `t` seconds at most `rate` · (`t` + 1 s) bytes pass, and one answer.

    :param rate: bytes per second; None lets everything pass
    """

    def __init__(self, rate: float | None, clock: Seconds) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = 0.0
        self._at = clock()

    def take(self, size: int) -> None:
        """Account for bytes that came."""
        if self._rate is not None:
            self._fill(self._rate)
            self._tokens -= size

    def pause(self) -> float:
        """Seconds until the next request may be sent; 0: now."""
        if self._rate is None:
            return 0.0
        self._fill(self._rate)
        return max(0.0, -self._tokens / self._rate)

    def most(self, size: int) -> int:
        """How much to ask for where `size` is wanted: no more than a second's worth."""
        return size if self._rate is None else max(1, min(size, int(self._rate * _BURST_SECONDS)))

    def _fill(self, rate: float) -> None:
        now = self._clock()
        self._tokens = min(rate * _BURST_SECONDS, self._tokens + (now - self._at) * rate)
        self._at = now
