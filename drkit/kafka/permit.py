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
    """Ask this before each request, for as long as the context lasts.

    :param ask: None: nothing is asked
    """
    before = _ASK.set(ask)
    try:
        yield
    finally:
        _ASK.reset(before)


def may_send() -> None:
    """Ask, if there is a question. Raises whatever it raises."""
    if (ask := _ASK.get()) is not None:
        ask()
