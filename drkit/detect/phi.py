"""The phi accrual failure detector: how unlikely the current silence is. Pure.

N. Hayashibara, X. Défago, R. Yared, T. Katayama, "The φ Accrual Failure Detector", SRDS 2004: intervals
between arrivals in a sliding window are taken as normally distributed; phi = −log10 of the probability that
a beat comes even later than now. Phi 8: one wrong suspicion in a hundred million beats. Two additions that
its known implementations share: a pause that is always tolerated, added to the mean, and a least deviation,
because the arrivals of an idle machine are more regular than any real one's.
"""

from __future__ import annotations

from collections import deque
from math import erfc, log, log10, pi, sqrt
from typing import Final, NamedTuple

_FAR: Final = 12.0
"""Standard deviations from which on the tail is taken from its asymptote: erfc() ends near 37."""
_SEEDED_DEVIATION: Final = 4.0
"""Before arrivals are known, the deviation is a quarter of the interval."""


class PhiRules(NamedTuple):
    """The detector's settings, in seconds."""

    interval: float = 1.0
    """Expected between two beats, until arrivals are known."""
    threshold: float = 8.0
    window: int = 300
    """Intervals that are remembered."""
    min_deviation: float = 0.5
    pause: float = 3.0
    """Silence that is always tolerated."""


class PhiAccrual:
    """Suspicion from arrival times, by a clock that does not advance during a stall (`AwakeClock`).

    :param now: time of the first arrival, which is no sample of an interval
    """

    def __init__(self, rules: PhiRules, now: float) -> None:
        self._rules = rules
        self._last = now
        self._sampling = False
        deviation = rules.interval / _SEEDED_DEVIATION
        seed = (rules.interval - deviation, rules.interval + deviation)
        self._intervals = deque(seed, maxlen=max(2, rules.window))
        self._sum = sum(seed)
        self._squares = sum(i * i for i in seed)

    def beat(self, now: float) -> None:
        """Record the arrival of a heartbeat."""
        if self._sampling and self.phi(now) < self._rules.threshold:
            # An interval after a real silence would make the next silence look normal.
            self._take(max(0.0, now - self._last))
        self._last = max(now, self._last)
        self._sampling = True

    def interrupted(self) -> None:
        """Record a stall of this process: the interval to the next beat is no sample."""
        self._sampling = False

    def silence(self, now: float) -> float:
        """Seconds since the last arrival."""
        return max(0.0, now - self._last)

    def phi(self, now: float) -> float:
        """The suspicion: 0 right after a beat, and never less while no other comes."""
        return phi_of(self.silence(now), self.mean + self._rules.pause, self.deviation)

    @property
    def mean(self) -> float:
        """Of the remembered intervals."""
        return self._sum / len(self._intervals)

    @property
    def deviation(self) -> float:
        """Of the remembered intervals, but never less than the least one allowed."""
        variance = self._squares / len(self._intervals) - self.mean**2
        return max(self._rules.min_deviation, sqrt(max(0.0, variance)))

    def _take(self, interval: float) -> None:
        if len(self._intervals) == self._intervals.maxlen:
            old = self._intervals[0]
            self._sum -= old
            self._squares -= old * old
        self._intervals.append(interval)
        self._sum += interval
        self._squares += interval * interval


def phi_of(silence: float, mean: float, deviation: float) -> float:
    """−log10(1 − F(silence)) of a normal distribution; grows with the silence without end."""
    y = (silence - mean) / deviation
    return _near(y) if y < _FAR else _far(y) + _near(_FAR) - _far(_FAR)


def _near(y: float) -> float:
    return max(0.0, -log10(0.5 * erfc(y / sqrt(2.0))))


def _far(y: float) -> float:
    return (y * y / 2 + log(y * sqrt(2 * pi))) / log(10)
