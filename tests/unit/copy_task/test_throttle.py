from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.copy_task.core.context import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(
    rate=st.floats(1.0, 1e8),
    steps=st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 3.0)), max_size=50),
)
def test_never_more_than_the_rate_a_second_and_one_answer(rate: float, steps: list[tuple[float, float]]):
    """A task asks whenever it may; answers are as large as brokers like, idle spans as long as they are."""
    clock = Clock()
    throttle = Throttle(rate, clock)
    taken: list[tuple[float, float]] = []
    for idle, seconds_worth in steps:
        clock.now += idle
        clock.now += throttle.pause()
        size = int(rate * seconds_worth)
        throttle.take(size)
        taken.append((clock.now, size))
    for first in range(len(taken)):
        passed = 0.0
        for at, amount in taken[first:]:
            passed += amount
            largest = max(s for _, s in taken[first:])
            assert passed <= rate * (at - taken[first][0] + 1.0) + largest + 1e-6 * rate


@given(rate=st.floats(10.0, 1e6), sizes=st.lists(st.integers(1, 10_000_000), min_size=1, max_size=30))
def test_a_busy_task_gets_the_whole_rate(rate: float, sizes: list[int]):
    clock = Clock()
    throttle = Throttle(rate, clock)
    for size in sizes:
        clock.now += throttle.pause()
        throttle.take(throttle.most(size))
    assert sum(map(throttle.most, sizes)) + 1e-3 * rate >= rate * clock.now


def test_no_throttle_lets_everything_pass():
    throttle = Throttle(None, Clock())
    throttle.take(1 << 40)
    assert (throttle.pause(), throttle.most(8 << 20)) == (0.0, 8 << 20)


def test_a_slow_flow_asks_for_little():
    throttle = Throttle(1000, Clock())
    assert throttle.most(8 << 20) == 1000
    throttle.take(1500)
    assert throttle.pause() == 1.5
