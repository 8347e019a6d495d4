"""Asks before each request whether it may still be sent.

A process that was halted (suspended, paused, without a processor) continues in the middle of a decision that
is old by then. The deciding code sets a check here; every request of this thread to a cluster runs it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Ask = Callable[[], None]
"""Raises when the request must not be sent."""

_ASK: Final[ContextVar[Ask | None]] = ContextVar("permit", default=None)


@contextmanager
def permitted_by(ask: Ask | None) -> Iterator[None]:
    """Run this check before each request, for as long as the context lasts.

    :param ask: the check; None: no check
    """
    before = _ASK.set(ask)
    try:
        yield
    finally:
        _ASK.reset(before)


def may_send() -> None:
    """Run the check, if one is set. Raises what the check raises."""
    if (ask := _ASK.get()) is not None:
        ask()
