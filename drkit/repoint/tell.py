"""Run all adapters at once; each failure is retried, then reported, and delays no other adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
import time
from typing import Final, NamedTuple, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from drkit import observe
from drkit.clock import Seconds, monotonic
from drkit.endpoint import Endpoint
from drkit.errors import DrkitError, Failed
from drkit.repoint.contract import Adapter, OlderTerm, RepointEffect, TryAgain
from drkit.time_limit import begun

_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
_LATE_SECONDS: Final = 5.0
"""Extra seconds for an attempt with limits of its own: a command that is killed, a second request."""
_AT_ONCE: Final = 64
T = TypeVar("T")


class Result(StrEnum):
    """The result of one adapter."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """Clients have a newer term: a retry does not help."""
    FAILED = "failed"

    @property
    def is_done(self) -> bool:
        """Whether clients have the endpoint."""
        return self in {Result.CHANGED, Result.UNCHANGED}


class RepointOutcome(NamedTuple):
    """The result of one adapter, with its error."""

    name: str
    result: Result
    tries: int
    seconds: float
    error: DrkitError | None = None
    """Why the adapter refused or failed."""


class Way(NamedTuple):
    """An adapter with its retries and timeouts."""

    adapter: Adapter
    retry_seconds: float
    try_seconds: float = 10.0
    """How long one try may take."""


class CurrentEndpoint(NamedTuple):
    """The endpoint that clients of one adapter have now."""

    name: str
    endpoint: Endpoint | None
    error: DrkitError | None = None
    """Why the endpoint is unknown."""


def tell_all(
    ways: Sequence[Way],
    endpoint: Endpoint,
    *,
    on_outcome: Callable[[RepointOutcome], None] = lambda _: None,
    clock: Seconds = monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[RepointOutcome]:
    """Run all adapters in parallel; returns outcomes in their order. A failed one raises nothing.

    No adapter takes longer than its attempts and one more, whatever its file, program or server does.

    :param on_outcome: called as each ends, in the calling thread
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="repoint") as pool:
        pending = [pool.submit(_outcome_of, way, endpoint, clock, sleep) for way in ways]
        found = []
        for future in pending:
            found.append(future.result())
            on_outcome(found[-1])
    return found


def ask_all(ways: Sequence[Way]) -> list[CurrentEndpoint]:
    """The current endpoints of all adapters, read in parallel, in their order."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="repoint") as pool:
        return list(pool.map(_asked, ways))


def _asked(way: Way) -> CurrentEndpoint:
    try:
        return CurrentEndpoint(way.adapter.name, _bounded(way, way.adapter.current))
    except DrkitError as error:
        return CurrentEndpoint(way.adapter.name, None, error)


def _bounded(way: Way, work: Callable[[], T]) -> T:
    """One attempt, within its time.

    :raises DrkitError: any failure, even an unexpected one: it stops no other adapter
    """
    seconds, name = way.try_seconds + _LATE_SECONDS, way.adapter.name
    running = begun(work)
    try:
        error = running.exception(seconds)
    except TimeoutError as late:
        raise Failed(
            "repoint_timeout", where=name, evidence="drkit waits no longer; it may still end", seconds=seconds
        ) from late
    if error is None:
        return running.result()
    if isinstance(error, DrkitError):
        raise error
    # Its text may hold what is secret.
    raise Failed("repoint_impossible", where=name, evidence=type(error).__name__) from error


def _outcome_of(
    way: Way, endpoint: Endpoint, clock: Seconds, sleep: Callable[[float], None]
) -> RepointOutcome:
    name, started = way.adapter.name, clock()
    tries = Retrying(
        retry=retry_if_exception_type(TryAgain),
        stop=stop_after_delay(way.retry_seconds),
        wait=wait_random_exponential(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS),
        before_sleep=lambda state: _say(name, state),
        sleep=sleep,
        reraise=True,
    )
    error: DrkitError | None = None
    try:
        effect = tries(_bounded, way, lambda: way.adapter.tell(endpoint))
        result = Result.CHANGED if effect is RepointEffect.CHANGED else Result.UNCHANGED
    except OlderTerm as refused:
        result, error = Result.REFUSED, refused
    except DrkitError as failed:
        result, error = Result.FAILED, failed
        observe.error(failed, adapter=name, term=endpoint.term)
    number = int(tries.statistics.get("attempt_number", 1))
    return RepointOutcome(name, result, number, round(clock() - started, 3), error)


def _say(name: str, state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    observe.event(
        "repoint_retried", level="warning" if state.attempt_number == 1 else "debug", adapter=name,
        tries=state.attempt_number, error=str(error),
    )  # fmt: skip
