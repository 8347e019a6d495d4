"""How many tasks a flow may run with the slots that Spark has (pure), and when that has changed."""

from __future__ import annotations

from typing import Final, NamedTuple

_FEWER_AFTER_SECONDS: Final = 1.0
_MORE_AFTER_SECONDS: Final = 5.0
"""Time that more slots must last before the plan uses them: a worker may come and go."""


class Slots(NamedTuple):
    """Slots of Spark."""

    now: int
    needed: int

    @property
    def missing(self) -> int:
        """Return the number of missing slots; 0 if there are enough."""
        return max(0, self.needed - self.now)

    def share(self, tasks: int) -> int:
        """Copy tasks that a flow with `tasks` tasks may run at once: its share of the slots, at least 1."""
        if not self.missing:
            return tasks
        return min(tasks, max(1, tasks * self.now // self.needed))

    def text(self) -> str:
        """Return the missing slots in words."""
        return f"Spark has {self.now} of {self.needed} slots: fewer tasks copy at once"


UNLIMITED: Final = Slots(0, 0)
"""Where Spark runs in this process: its slots are never lost."""


class SteadySlots:
    """Takes a new number of slots once it has stayed for a moment.

    :param first: the slots at the start
    """

    def __init__(self, first: Slots) -> None:
        self.slots = first
        self._seen = first.now
        self._since = 0.0

    def look(self, now: int, seconds: float) -> bool:
        """Return whether :attr:`slots` has changed.

        :param now: the slots that Spark has
        :param seconds: the time, by a monotonic clock
        """
        if now == self.slots.now:
            self._seen = now
            return False
        if now != self._seen:
            self._seen, self._since = now, seconds
        wait = _FEWER_AFTER_SECONDS if now < self.slots.now else _MORE_AFTER_SECONDS
        if seconds - self._since < wait:
            return False
        self.slots = self.slots._replace(now=now)
        return True
