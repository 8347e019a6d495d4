"""The clock that stops while this process is suspended."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.detect.awake import AwakeClock


class Boot:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_ordinary_time_passes():
    boot = Boot()
    clock = AwakeClock(boot)
    for _ in range(50):
        boot.now += 0.1
        clock.now()
    assert clock.now() == pytest.approx(5.0)
    assert not clock.stalled_since(0.0)


def test_a_stall_is_no_time():
    boot = Boot()
    clock = AwakeClock(boot)
    before = clock.now()
    boot.now += 30.0
    assert clock.now() - before == pytest.approx(0.1)
    assert clock.stalled_since(before)
    boot.now += 0.5
    assert not clock.stalled_since(clock.now())
    assert clock.lost_seconds == pytest.approx(29.9)


def test_the_first_caller_after_a_stall_sees_it():
    boot = Boot()
    clock = AwakeClock(boot)
    began = clock.now()
    boot.now += 3.0  # no tick in between: the asker is the first
    assert clock.stalled_since(began)


@given(st.lists(st.floats(0.0, 100.0), max_size=50))
def test_it_never_goes_back_and_never_runs_ahead(gaps: list[float]):
    boot = Boot()
    clock = AwakeClock(boot)
    seen = [clock.now()]
    for gap in gaps:
        boot.now += gap
        seen.append(clock.now())
    assert seen == sorted(seen)
    for gap, (a, b) in zip(gaps, pairwise(seen), strict=True):
        assert b - a <= min(gap, 1.0) + 1e-9
