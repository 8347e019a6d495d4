"""The lease by which a fence agent lets the primary live. Pure.

The agent asks, observers answer in their votes. A lease counts from the moment when the agent *sent* the
request that was answered, on the agent's own clock: however late an answer arrives, it never prolongs a lease
beyond that moment plus its time to live. So no two clocks need to agree, only to run at the same speed.

So many observers must answer that those who are left cannot be a majority: when enough of them stop answering
to decide a failover, the lease ends, although the others go on.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum
from typing import Final

from drkit.detect.votes import quorum

_REMEMBERED: Final = 1000


class Hold(StrEnum):
    """What the agent may do with the primary."""

    UNARMED = "unarmed"
    """It never held a lease: nothing is promised to anybody yet."""
    LEASED = "leased"
    LOST = "lost"
    """Fence now."""


def answers_needed(observers: int) -> int:
    """How many observers must answer: so many that the rest is no quorum."""
    return observers - quorum(observers) + 1


class Lease:
    """Requests sent, answers heard. Times are those of CLOCK_BOOTTIME here.

    :param armed_at: an earlier process of this agent held a lease: it counts from this moment on
    :param first: before the number of the first request; another one for each process, so that an answer to
        an earlier one is known
    """

    def __init__(
        self, observers: int, ttl_seconds: float, armed_at: float | None = None, first: int = 0
    ) -> None:
        self._needed = answers_needed(observers)
        self._ttl = ttl_seconds
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._answered: dict[str, int] = {}
        self._from = armed_at
        self._number = first

    def ask(self, now: float) -> int:
        """The number of the next request, sent now."""
        self._number += 1
        self._sent[self._number] = now
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)
        return self._number

    def heard(self, observer: str, number: int) -> None:
        """An observer answered a request. Numbers that we never sent are somebody else's."""
        if number in self._sent and number > self._answered.get(observer, 0):
            self._answered[observer] = number
            self._renew()

    def hold(self, now: float) -> Hold:
        """How it stands."""
        if self._from is None:
            return Hold.UNARMED
        return Hold.LEASED if now - self._from < self._ttl else Hold.LOST

    def left(self, now: float) -> float | None:
        """Seconds until it ends; None: there is none."""
        return None if self._from is None else self._from + self._ttl - now

    def answered(self, now: float) -> tuple[str, ...]:
        """Observers whose answer is within its time."""
        return tuple(
            sorted(o for o, n in self._answered.items() if now - self._sent.get(n, float("-inf")) < self._ttl)
        )

    def _renew(self) -> None:
        sent = sorted((self._sent[n] for n in self._answered.values() if n in self._sent), reverse=True)
        if len(sent) >= self._needed:
            least = sent[self._needed - 1]
            self._from = least if self._from is None else max(self._from, least)
