"""Waiting for what a measurement needs before it can continue."""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Final

_LOOK_SECONDS: Final = 0.05


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition is true.

    :raises TimeoutError: it does not come true in time
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not in {seconds:.0f} s")
        time.sleep(_LOOK_SECONDS)
