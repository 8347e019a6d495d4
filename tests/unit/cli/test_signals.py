"""Signals that end a command reach it wherever they interrupt it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import signal
import threading

import pytest

from drkit.cli import main
from drkit.cli.signals import ENDING, setting, until_signalled
from tests.support.failover.command import drkit


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_in_the_middle_of_a_wait_sets_the_event(number: signal.Signals):
    """A wait holds the event's lock for a moment, at its beginning and at its end."""
    stop = until_signalled()
    before = signal.signal(signal.SIGALRM, _fail)
    signal.alarm(10)
    try:
        with lock_of(stop):  # as `wait` does: the handler runs in this very thread
            signal.raise_signal(number)
        assert stop.wait(10)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def lock_of(event: threading.Event) -> threading.Condition:
    """The lock that waiting for an event and setting it take."""
    found = vars(event)["_cond"]
    assert isinstance(found, threading.Condition)
    return found


def _fail(*_signal: object) -> None:
    raise AssertionError("the handler waits for the lock that its own thread holds")


def test_a_second_signal_interrupts_also_before_the_event_is_set():
    stop = until_signalled()
    with lock_of(stop):
        signal.raise_signal(signal.SIGINT)
        assert not stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert stop.wait(10)


def test_a_second_signal_in_the_handler_of_the_first_interrupts():
    """Both found that none had come before, where the second came while the first asked for the event."""

    class Asked(threading.Event):
        is_first = True

        def is_set(self) -> bool:
            if self.is_first:
                self.is_first = False
                signal.raise_signal(signal.SIGINT)
            return super().is_set()

    stop, called = Asked(), list[str]()
    setting(stop, lambda: called.append("twice"))
    signal.raise_signal(signal.SIGINT)
    assert called == ["twice"]
    assert stop.wait(10)


def test_a_signal_when_the_command_has_ended_by_itself_is_a_second_one():
    called: list[str] = []
    stop = threading.Event()
    stop.set()
    setting(stop, lambda: called.append("twice"))(signal.SIGTERM, None)
    assert called == ["twice"]


def test_a_command_that_a_test_runs_leaves_no_handler_behind(monkeypatch: pytest.MonkeyPatch):
    """The interrupt of the next test was the first signal of a command that had ended, so it was lost."""

    def run(_words: list[str]) -> int:
        until_signalled()
        return 0

    monkeypatch.setattr(main, "run", run)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # an earlier test may have another one
    try:
        assert drkit(Path("drkit.toml"), "drill", "schedule").code == 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
