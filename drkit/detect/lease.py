"""The lease by which a fence agent lets the primary live. Pure.

The agent requests a lease; observers answer in their votes. A lease starts when the agent *sent* the
answered request, by the agent's own clock: a late answer never extends a lease beyond that moment plus its
time to live. Clocks therefore need not agree, only run at the same speed.

The observers that do not answer must be fewer than a majority: when enough observers to decide a failover
stop answering, the lease ends, although the others still answer.
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
    """The agent never held a lease and guarantees nothing yet."""
    LEASED = "leased"
    LOST = "lost"
    """Fence now."""


def answers_needed(observers: int) -> int:
    """The smallest number of answering observers that leaves the rest without a quorum."""
    return observers - quorum(observers) + 1


class Lease:
    """Requests sent and answers received. Times are of CLOCK_BOOTTIME on this machine.

    :param armed_at: start of the lease if an earlier process of this agent held one
    :param first: the number before the first request; differs for each process, so that answers to an
        earlier process are recognized
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
        """Record an observer's answer. A number that this process never sent is ignored."""
        if number in self._sent and number > self._answered.get(observer, 0):
            self._answered[observer] = number
            self._renew()

    def hold(self, now: float) -> Hold:
        """State of the lease at a time."""
        if self._from is None:
            return Hold.UNARMED
        return Hold.LEASED if now - self._from < self._ttl else Hold.LOST

    def left(self, now: float) -> float | None:
        """Seconds until the lease ends; None: no lease."""
        return None if self._from is None else self._from + self._ttl - now

    def answered(self, now: float) -> tuple[str, ...]:
        """Observers whose answer has not expired."""
        return tuple(
            sorted(o for o, n in self._answered.items() if now - self._sent.get(n, float("-inf")) < self._ttl)
        )

    def _renew(self) -> None:
        sent = sorted((self._sent[n] for n in self._answered.values() if n in self._sent), reverse=True)
        if len(sent) >= self._needed:
            least = sent[self._needed - 1]
            self._from = least if self._from is None else max(self._from, least)
