"""Whose notes count in the topic of the observers: configured names, one process each. Pure.

A name alone proves nothing: any client that may write to the topic can use it. The process that owns a name
publishes all the time, so a second process under that name is visible: the two alternate, or the numbers of
one run go back. Then neither is trusted until one of them has been silent for some intervals.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from drkit.config import Settings

_INTERVALS: Final = 3
"""Number of silent intervals after which a process counts as ended."""
_REMEMBERED: Final = 16
"""Maximum number of remembered runs of one name: enough to recognize an earlier run."""


class Speakers(NamedTuple):
    """The trusted names; None: every name, since the configuration has only their number."""

    observers: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    observer_quiet: float = 0.0
    """Seconds without a vote after which an observer's process counts as ended."""
    agent_quiet: float = 0.0
    """Seconds without a note after which a fence agent's process counts as ended."""

    @classmethod
    def of(cls, settings: Settings) -> Speakers:
        """The names of a configuration. Without configured agents, named observers trust no agent."""
        watch, agent = settings.watch, settings.fence_agent
        named = frozenset(watch.observer_names) or None
        agents = frozenset(agent.agent_names) if agent.agent_names or (named and not agent.agents) else None
        return cls(named, agents, _INTERVALS * watch.vote_interval_seconds, _INTERVALS * agent.check_seconds)


ANYBODY: Final = Speakers()
"""Any name counts."""


class Speaking:
    """The processes that publish under one name in one topic, from the records in the topic's order.

    :param quiet: seconds without a record after which a process counts as ended
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._run = ""
        self._number = 0
        self._value = b""
        self._at = float("-inf")
        self._earlier: deque[str] = deque(maxlen=_REMEMBERED)
        self._until = float("-inf")
        self._why = ""
        self.in_conflict = False
        """Two processes publish at the same time."""

    def take(self, run: str, number: int, value: bytes, now: float, *, live: bool) -> None:
        """Take one record.

        :param number: counts up in each run
        :param live: the record arrived after the topic was read to its end; older ones only name the last run
        """
        if live and now >= self._until:
            self.in_conflict = False
        if live and run == self._run:
            if number < self._number or (number == self._number and value != self._value):
                self._conflict(f"two processes publish under this name, both as run {run}", now)
        elif live and self._run:
            if run in self._earlier:
                self._conflict(f"two processes publish under this name, runs {self._run} and {run}", now)
            elif now - self._at < self._quiet:
                self._until = max(self._until, self._at + self._quiet)
                if not self.in_conflict:
                    self._why = f"another process published under this name {now - self._at:.1f} s before"
        if run != self._run and self._run:
            self._earlier.append(self._run)
        self._run, self._number, self._value, self._at = run, number, value, now

    def _conflict(self, why: str, now: float) -> None:
        self._until, self._why, self.in_conflict = now + self._quiet, why, True

    def doubt(self) -> Doubt:
        """Until when the newest record is not trusted, and why."""
        return Doubt(self._until, self._why)


class Doubt(NamedTuple):
    """Why a note is not trusted, and until when."""

    until: float = float("-inf")
    """By the clock of its arrival."""
    why: str = ""

    def at(self, now: float) -> str:
        """Why the note is not trusted now; empty when it is."""
        return self.why if now < self.until else ""


NO_DOUBT: Final = Doubt()
