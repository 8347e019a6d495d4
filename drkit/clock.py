"""The three clocks, as functions that can be passed in.

Code that decides by time takes one of these types as an argument; only its default is the real clock.
"""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Final

Seconds = Callable[[], float]
"""A clock in seconds with an arbitrary start: only differences are meaningful."""

Millis = Callable[[], int]
"""A wall clock: milliseconds since 1970, as in Kafka's record timestamps."""

# Linux alone counts a suspended machine; elsewhere monotonic is the closest there is.
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Seconds for measuring; the clock stops while the machine is suspended."""
    return time.monotonic()


def boottime() -> float:
    """Seconds for deadlines that others rely on; the clock runs while the machine is suspended."""
    return time.clock_gettime(_BOOT)


def wall_ms() -> int:
    """Milliseconds since 1970; may jump, never for measuring."""
    return time.time_ns() // 1_000_000


def steady(wall: Millis = wall_ms, boot: Seconds = boottime) -> Millis:
    """A wall clock for one task: it starts at the current wall time and never jumps afterwards.

    Times that it has given may be subtracted. Not for a process that lives for months: when its machine's
    clock is corrected, this one is not.
    """
    began_ms, began = wall(), boot()
    return lambda: began_ms + round((boot() - began) * 1000)
