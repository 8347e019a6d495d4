"""Requests that need the old primary, repeated as :meth:`Context.lose_source` allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drkit.errors import DrkitError
from drkit.failover.core.context import Context
from drkit.kafka.raw import RawCluster, RawError

T = TypeVar("T")


def asked(context: Context, question: Callable[[RawCluster | None], T]) -> T:
    """Return the answer, with or without the old primary.

    :param question: gets the old primary; None when it does not answer
    :raises RawError: the target does not answer
    """
    while True:
        source = context.source()
        try:
            return question(source)
        except RawError as error:
            if source is None:
                raise
            context.lose_source(error)


def asked_now(context: Context, question: Callable[[RawCluster], T], otherwise: T) -> T:
    """Return the current answer of the old primary.

    :param otherwise: returned when it does not answer, or refuses
    """
    while (source := context.look_at_source()) is not None:
        try:
            return question(source)
        except RawError as error:
            context.lose_source(error)
        except DrkitError as error:
            context.lose_source(error)
            break
    return otherwise
