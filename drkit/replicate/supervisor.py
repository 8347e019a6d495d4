"""Restarts a flow when it dies: with growing pauses, and never when a retry cannot help."""

from __future__ import annotations

from collections.abc import Callable
import random
import threading
import traceback
from typing import Final

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_never

from drkit import observe
from drkit.allocator import free_cycles
from drkit.clock import Seconds, monotonic
from drkit.errors import ConfigError, DrkitError, NotAuthenticated, NotAuthorized, Refused
from drkit.flow_state.lease.run_lease import LeaseTaken
from drkit.spark.jobs import SparkGone

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
_HEALTHY_SECONDS: Final = 60.0
"""An attempt that lived this long begins a new series of pauses."""
_ATTEMPTS_ONCE: Final = 6


_PERMANENT: Final = (ConfigError, LeaseTaken, NotAuthenticated, NotAuthorized, Refused, SparkGone)


class Backoff:
    """The pause before the next attempt: doubled each time, ±50 %, so that flows do not march in step."""

    def __init__(self, clock: Seconds = monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._began = clock()

    def begin(self) -> None:
        """An attempt begins."""
        self._began = self._clock()

    def __call__(self, _: RetryCallState | None = None) -> float:
        """Seconds to wait before the next attempt."""
        if self._clock() - self._began >= _HEALTHY_SECONDS:
            self._failures = 0
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return pause * random.uniform(0.5, 1.5)  # noqa: S311  spread, not secrecy


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may help: not for a wrong configuration, missing rights, or a live rival."""
    return isinstance(error, DrkitError) and not isinstance(error, _PERMANENT)


def supervise(
    name: str,
    attempt: Callable[[], None],
    stop: threading.Event,
    *,
    once: bool = False,
    backoff: Backoff | None = None,
) -> None:
    """Run `attempt` until it returns, is stopped, or fails for good.

    :param once: give up after some attempts: a batch job must end
    :raises DrkitError: the failure that ended it
    """
    backoff = backoff or Backoff()

    def guarded() -> None:
        backoff.begin()
        if stop.is_set():
            return
        try:
            attempt()
        except DrkitError as error:
            # A passing error during a requested stop needs no report. A signal to all processes of a
            # service ends Spark's JVM, too.
            if not stop.is_set() or not (is_transient(error) or isinstance(error, SparkGone)):
                raise

    def tell(retry: RetryCallState) -> None:
        error = retry.outcome.exception() if retry.outcome is not None else None
        pause = retry.next_action.sleep if retry.next_action is not None else 0.0
        if error is not None:
            observe.error(error, flow=name, restarts_in_seconds=round(pause, 1))
            free_clients(error)

    Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_attempt(_ATTEMPTS_ONCE) if once else stop_never,
        wait=backoff,
        sleep=lambda seconds: _wait(stop, seconds),
        before_sleep=tell,
        reraise=True,
    )(guarded)


def free_clients(error: BaseException | None) -> None:
    """Close what a failed attempt has opened: its clients hang on its traceback and on their own callbacks.

    They try to connect until they are freed, with three threads and up to ten descriptors each.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    free_cycles()


def survives(look: Callable[[], None], name: str) -> bool:
    """Run a look; report a cluster that does not answer instead of ending its waiting tasks."""
    try:
        look()
    except DrkitError as error:
        if not is_transient(error):
            raise
        observe.error(error, flow=name)
        return False
    return True


def _wait(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)
