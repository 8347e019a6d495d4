"""When a flow is started again, how long it waits, and when it is not; with a clock of the test's own."""

from __future__ import annotations

import gc
from pathlib import Path
import threading

from confluent_kafka import Producer
import pytest

from drkit.errors import ClusterUnreachable, ConfigError, Failed, NotAuthenticated, NotAuthorized, Refused
from drkit.flow_state.lease.run_lease import LeaseLost, LeaseTaken
from drkit.replicate.supervisor import LONGEST_PAUSE_SECONDS, Backoff, is_transient, supervise
from tests.support.errors import made
from tests.support.waiting import eventually


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class NoPause(Backoff):
    def __call__(self, _: object = None) -> float:
        return 0.0


class Attempts:
    """Fails as told, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self) -> None:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)


def test_a_flow_that_dies_is_started_again_until_it_lives():
    attempts = Attempts(made(ClusterUnreachable, "a"), made(Failed, "b"), made(LeaseLost, "c"))
    supervise("a->b", attempts, threading.Event(), backoff=NoPause())
    assert attempts.made == 4


@pytest.mark.parametrize(
    "error",
    [
        made(ConfigError, "x"),
        made(NotAuthenticated, "x"),
        made(NotAuthorized, "x"),
        made(Refused, "x"),
        made(LeaseTaken, "x"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_what_trying_again_cannot_help_ends_it(error: Exception):
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        supervise("a->b", attempts, threading.Event(), backoff=NoPause())
    assert attempts.made == 1


def test_a_bug_is_no_reason_to_try_again():
    assert not is_transient(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        supervise("a->b", Attempts(ZeroDivisionError()), threading.Event(), backoff=NoPause())


def test_a_copy_that_must_end_gives_up_after_some_attempts():
    attempts = Attempts(*[made(ClusterUnreachable, "gone")] * 50)
    with pytest.raises(ClusterUnreachable):
        supervise("a->b", attempts, threading.Event(), once=True, backoff=NoPause())
    assert attempts.made == 6


def _entries(folder: str) -> int:
    return len(list(Path("/proc/self", folder).iterdir()))


class Clients:
    """Fails while its clients try to connect; they are held by their own callbacks, and by what failed."""

    def __init__(self) -> None:
        self.open: list[tuple[int, int]] = []
        """Threads and descriptors at the beginning of each attempt."""

    def __call__(self) -> None:
        self.open.append((_entries("task"), _entries("fd")))
        if len(self.open) > 4:
            return
        self.fail()

    def fail(self) -> None:
        clients: list[Producer] = [
            Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda _: clients}) for _ in "ab"
        ]
        if len(self.open) == 1:
            gc.freeze()  # as the first round of checkpoints does
        try:
            raise made(Failed, "within")
        except Failed as error:
            raise made(LeaseLost, "lost") from error


def _is_still(samples: list[tuple[int, int]]) -> bool:
    """Whether threads and descriptors are the same in forty samples: clients of earlier tests end late."""
    samples.append((_entries("task"), _entries("fd")))
    return samples[-40:] == [samples[-1]] * 40


def test_an_attempt_that_failed_leaves_no_clients_behind():
    gc.collect()
    before: list[tuple[int, int]] = []
    eventually(lambda: _is_still(before), 30, "clients of earlier tests are gone")
    attempts = Clients()
    supervise("a->b", attempts, threading.Event(), backoff=NoPause())
    first, *later = attempts.open
    assert later == [first] * 4


def test_stop_ends_the_waiting_and_no_new_attempt_begins():
    stop = threading.Event()
    attempts = Attempts(made(Failed, "x"), made(Failed, "y"))

    class StopNow(Backoff):
        def __call__(self, _: object = None) -> float:
            stop.set()
            return 600.0

    supervise("a->b", attempts, stop, backoff=StopNow())
    assert attempts.made == 1


def test_pauses_double_spread_and_start_again_after_a_healthy_time():
    clock = Clock()
    backoff = Backoff(clock)
    pauses = []
    for _ in range(12):
        backoff.begin()
        pauses.append(backoff())
    assert 0.25 <= pauses[0] <= 0.75
    assert 1.0 <= pauses[2] <= 3.0
    assert max(pauses) <= 1.5 * LONGEST_PAUSE_SECONDS

    backoff.begin()
    clock.now += 61
    assert backoff() <= 0.75
