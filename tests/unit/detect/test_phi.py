"""Suspicion by arrivals: grows with silence, learns the rhythm, forgives a pause."""

from __future__ import annotations

from itertools import pairwise
import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.detect.phi import PhiAccrual, PhiRules, phi_of

RULES = PhiRules()


def beaten(intervals: list[float], rules: PhiRules = RULES) -> tuple[PhiAccrual, float]:
    now, detector = 0.0, PhiAccrual(rules, 0.0)
    for interval in [0.0, *intervals]:
        now += interval
        detector.beat(now)
    return detector, now


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.01, 100), st.floats(0.01, 100))
def test_more_silence_is_never_less_suspicion(a: float, b: float, mean: float, deviation: float):
    low, high = sorted((a, b))
    assert phi_of(low, mean, deviation) <= phi_of(high, mean, deviation)


def test_the_asymptote_joins_without_a_step():
    around = [phi_of(x / 1000, 0.0, 1.0) for x in range(11_900, 12_100)]
    steps = [b - a for a, b in pairwise(around)]
    assert max(steps) < 1.2 * min(steps)
    assert phi_of(1e9, 1.0, 0.3) < math.inf


def test_phi_is_the_exponent_of_the_probability():
    # 1 − F(mean) of a normal distribution is a half; three deviations leave 0.00135.
    assert phi_of(5.0, 5.0, 1.0) == pytest.approx(0.30103, abs=1e-5)
    assert phi_of(8.0, 5.0, 1.0) == pytest.approx(2.8697, abs=1e-3)


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_a_killed_primary_is_suspected_within_seven_seconds(jitter: float):
    detector, now = beaten([1.0 + jitter * (-1) ** i for i in range(100)])
    assert detector.phi(now + 5.0) < 8.0
    assert detector.phi(now + 7.0) >= 8.0


def test_a_pause_of_three_seconds_is_no_suspicion():
    detector, now = beaten([1.0] * 50)
    assert detector.phi(now + 4.0) < 1.0  # a pause of 3 s and the interval after it


def test_a_restless_path_is_given_more_time():
    calm, a = beaten([1.0] * 200)
    restless, b = beaten([0.2, 1.8, 0.1, 2.5] * 50)
    assert restless.phi(b + 6.0) < calm.phi(a + 6.0)


def test_a_real_silence_is_not_learnt():
    detector, now = beaten([1.0] * 20)
    detector.beat(now + 600.0)
    assert detector.deviation == 0.5
    assert detector.phi(now + 607.0) >= 8.0


def test_our_own_stall_is_no_sample():
    detector, now = beaten([1.0] * 20)
    before = detector.mean
    detector.interrupted()
    detector.beat(now + 3.9)
    assert detector.mean == before


def test_before_the_first_beat_silence_counts_from_the_start():
    detector = PhiAccrual(RULES, 100.0)
    assert detector.phi(100.0) < 1e-9
    assert detector.phi(110.0) >= 8.0


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=700), st.integers(10, 300))
def test_the_window_is_what_is_remembered(intervals: list[float], window: int):
    detector, _ = beaten(intervals, PhiRules(window=window, threshold=1e9))
    kept = [0.75, 1.25, *intervals][-window:]
    mean = sum(kept) / len(kept)
    assert detector.mean == pytest.approx(mean, abs=1e-6)
    variance = sum((i - mean) ** 2 for i in kept) / len(kept)
    assert detector.deviation == pytest.approx(max(0.5, math.sqrt(variance)), abs=1e-4)
