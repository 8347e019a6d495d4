"""How often a source is asked at a steady rate of small batches: rarely enough that answers hold some. Pure.

A long poll is answered as soon as there is one record. Thousands of records a second, each in a batch of
its own, cause hundreds of requests a second on both clusters; when processors are scarce, these delay the
records. Above a rate at which the spacing is not noticeable, answers are spaced out.
"""

from __future__ import annotations

from typing import Final

SPACED_SECONDS: Final = 0.008
"""Minimum time between two fetches of a busy source."""
_BUSY: Final = 250.0
"""Answers a second from which on they are spaced out."""
_CALM: Final = 90.0
"""Answers a second below which they are no longer spaced out; spaced out, the maximum is 125."""
_LARGE: Final = 64 * 1024
"""Bytes: an answer of this size is worth its request."""
_MEMORY_SECONDS: Final = 0.5
"""Over which the rate is smoothed."""


class FetchPace:
    """The spacing of one fetcher's requests. Times are in seconds, of any monotonic clock."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._answered = self._asked = float("-inf")
        self._spaced = False

    def asked(self, now: float) -> None:
        """A request is sent."""
        self._asked = now

    def answered(self, now: float, size: int) -> None:
        """Its answer has arrived.

        :param size: bytes of records in it
        """
        passed = max(now - self._answered, 1e-4)
        self._answered = now
        keep = 0.5 ** (passed / _MEMORY_SECONDS)
        self._rate = keep * self._rate + (1.0 - keep) / passed
        if size >= _LARGE or self._rate < _CALM:
            self._spaced = False
        elif self._rate > _BUSY:
            self._spaced = True

    def pause(self, now: float) -> float:
        """How long the next request is to wait; 0: not at all."""
        return max(0.0, self._asked + SPACED_SECONDS - now) if self._spaced else 0.0
