"""When a lease may be taken, and how long its holder may write. Pure: records and times are passed in.

Each process uses the clock of its machine's boot, in seconds; only differences of one clock are used.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from drkit.flow_state.kinds.run import LeaseRecord

USABLE: Final = 0.9
"""Share of the lease time in which its holder writes; the rest is for clocks that run faster than others."""


class LeaseAvailability(StrEnum):
    """Whether a lease may be taken, and why."""

    FREE = "no run holds it"
    THIS_RUN = "this run holds it"
    GONE = "its holder's process is gone"
    OVER = "its holder renews it no longer"
    HELD = "its holder renews it"


class LeaseTurn:
    """Judges a lease by what one process reads of it.

    A lease is over when the same record was read twice, with at least its time between the end of the first
    read and the start of the second: clocks of other machines do not count, and a slow read proves
    nothing about its own duration.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._since = 0.0
        self.known: LeaseRecord | None = None
        """The record of the last read."""
        self.changed = False
        """Whether the last read found another record than the one before it."""
        self.hidden_since = float("inf")
        """The time since which reads are incomplete; infinity: the last one was complete."""

    def look(
        self,
        lease: LeaseRecord | None,
        *,
        asked: float,
        answered: float,
        alive: bool | None = None,
        whole: bool = True,
    ) -> LeaseAvailability:
        """Judge the record just read.

        :param asked: when reading began
        :param answered: when it had ended
        :param alive: whether the holder is a living process of this machine; None: unknown
        :param whole: no part of the state was hidden by an open transaction
        """
        self.changed = self.known is not None and lease != self.known
        if lease != self.known:
            self.known, self._since = lease, answered
        self.hidden_since = float("inf") if whole else min(self.hidden_since, answered)
        if not whole:
            return LeaseAvailability.HELD
        if lease is None:
            return LeaseAvailability.FREE
        if lease.run_id == self._run_id:
            return LeaseAvailability.THIS_RUN
        if alive is False:
            return LeaseAvailability.GONE
        return (
            LeaseAvailability.OVER if asked - self._since >= lease.ttl_ms / 1000 else LeaseAvailability.HELD
        )

    def is_as_judged(self, lease: LeaseRecord | None) -> bool:
        """Whether this run may write, by the record read after all other producers were fenced."""
        return lease is None or lease.run_id == self._run_id or lease == self.known


class LeaseRight:
    """How long a holder of a lease, or a task of it, may write.

    :param seconds: the lease time
    :param until: by the clock of this machine's boot
    """

    def __init__(self, seconds: float, until: float = float("-inf")) -> None:
        self._seconds = USABLE * seconds
        self.until = until

    def extend(self, since: float) -> None:
        """Note a renewal that is durable, or was read, and did not exist before `since`."""
        self.until = max(self.until, since + self._seconds)

    def end(self, now: float) -> None:
        """Note that another run took the lease, or that it was released."""
        self.until = min(self.until, now)

    def holds(self, now: float) -> bool:
        """Whether the holder may write now."""
        return now < self.until
