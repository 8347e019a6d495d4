"""The spacing of fetches: none at a slow pace; a busy source gets at most 125 requests a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.copy_task.source.fetching import SPACED_SECONDS, FetchPace

SMALL, LARGE = 300, 1 << 20


class Source:
    """A clock, and a source that answers when there is something."""

    def __init__(self, pace: FetchPace) -> None:
        self.now, self.pauses, self._pace = 1000.0, list[float](), pace

    def fetch(self, waits: float, size: int = SMALL) -> None:
        """One request, answered after `waits` seconds; then the pause that the pace wants."""
        self._pace.asked(self.now)
        self.now += waits
        self._pace.answered(self.now, size)
        pause = self._pace.pause(self.now)
        self.pauses.append(pause)
        self.now += pause


@pytest.fixture
def source() -> Source:
    return Source(FetchPace())


@given(st.lists(st.floats(0.005, 0.5), min_size=1, max_size=200))
def test_at_two_hundred_a_second_no_fetch_waits(gaps: list[float]):
    source = Source(FetchPace())
    for gap in gaps:
        source.fetch(gap)
    assert not any(source.pauses)


def test_a_busy_source_is_spaced_out_and_stays_so(source: Source):
    for _ in range(1000):
        source.fetch(0.002)
    begun = next(i for i, pause in enumerate(source.pauses) if pause)
    assert 0 < begun * 0.002 < 1.0
    assert all(source.pauses[begun:]), "spaced out, it looks slower, and is as busy as before"
    assert max(source.pauses) <= SPACED_SECONDS


def test_calm_again_no_fetch_waits(source: Source):
    for _ in range(1000):
        source.fetch(0.002)
    for _ in range(100):
        source.fetch(0.02)
    assert not any(source.pauses[-20:])


def test_large_answers_come_one_after_the_other(source: Source):
    for _ in range(1000):
        source.fetch(0.001)
    source.fetch(0.001, LARGE)
    assert source.pauses[-2] > 0
    assert source.pauses[-1] == 0
    before = len(source.pauses)
    for _ in range(100):
        source.fetch(0.001, LARGE)
    assert not any(source.pauses[before:])


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 1 << 21)), max_size=100))
def test_no_pause_is_longer_than_the_spacing(answers: list[tuple[float, int]]):
    source = Source(FetchPace())
    for waits, size in answers:
        source.fetch(waits, size)
        assert 0 <= source.pauses[-1] <= SPACED_SECONDS
