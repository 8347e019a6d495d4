"""Waiting for what a measurement needs before it can continue, and the pauses that belong to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import time
from typing import Final

_LOOK_SECONDS: Final = 0.05


def until(
    condition: Callable[[], object],
    seconds: float,
    what: str,
    *,
    every: float = _LOOK_SECONDS,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Wait until a condition is true.

    :param every: seconds between two looks
    :param check: called at each look; it raises when there is nothing to wait for any more
    :raises TimeoutError: it does not come true in time
    """
    deadline = time.monotonic() + seconds
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not in {seconds:.0f} s")
        time.sleep(every)


def moments(seconds: float, every: float) -> Iterator[float]:
    """The time (`time.monotonic`) repeatedly, at this interval in seconds, until the seconds are over."""
    deadline = time.monotonic() + seconds
    while (now := time.monotonic()) < deadline:
        yield now
        time.sleep(max(0.0, min(every, deadline - time.monotonic())))


def pause(seconds: float, _why: str) -> None:
    """A time that is part of a measurement and waits for nothing that can be seen: why, in its words."""
    time.sleep(max(0.0, seconds))


def pause_until(moment: float, why: str) -> None:
    """The same, until a moment of `time.monotonic`."""
    pause(moment - time.monotonic(), why)
