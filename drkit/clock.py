"""The three clocks, as functions that can be passed in.

Code that decides by time takes one of these types as an argument; only its default is the real clock.
"""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Final

Seconds = Callable[[], float]
"""A clock in seconds with an arbitrary start: only differences mean something."""

Millis = Callable[[], int]
"""A wall clock: milliseconds since 1970, as in Kafka's record timestamps."""

# Only Linux has a clock that counts suspended time; elsewhere monotonic is the closest.
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Seconds for measuring; does not advance while the machine is suspended."""
    return time.monotonic()


def busy() -> float:
    """Seconds that a processor has worked for the calling thread: waiting for an answer is not counted."""
    return time.thread_time()


def boottime() -> float:
    """Seconds for deadlines that others rely on; advances while the machine is suspended."""
    return time.clock_gettime(_BOOT)


def wall_ms() -> int:
    """Milliseconds since 1970; may jump, never for measuring."""
    return time.time_ns() // 1_000_000


def steady(wall: Millis = wall_ms, boot: Seconds = boottime) -> Millis:
    """A wall clock for one task: starts at the current wall time and never jumps.

    Its times may be subtracted. Not for a process that runs for months: a correction of the machine's clock
    does not change this one.
    """
    began_ms, began = wall(), boot()
    return lambda: began_ms + round((boot() - began) * 1000)
