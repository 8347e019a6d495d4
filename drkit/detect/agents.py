"""The lease that a fence agent needs to leave the primary running, and the notes of agents. Pure.

The agent requests a lease; observers answer in their votes. A lease starts when the agent *sent* the
answered request, by the agent's own clock: a late answer never extends a lease beyond that moment plus its
time to live. Clocks therefore need not agree, only run at the same speed.

The observers that do not answer must be fewer than a majority: when enough observers to decide a failover
stop answering, the lease ends, although the others still answer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import Final

from drkit.detect.note_kinds import Counter, Label, Lines, Moment
from drkit.detect.votes import MOST_AGENTS, quorum
from drkit.flow_state.codec.fields import Flag
from drkit.flow_state.codec.record import StateRecord, state_record

_REMEMBERED: Final = 1000


class Hold(StrEnum):
    """The state of an agent's lease."""

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
        self._answered = {o: n for o, n in self._answered.items() if n in self._sent}
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
        """Seconds until the lease ends, or None without a lease."""
        return None if self._from is None else self._from + self._ttl - now

    def answered(self, now: float) -> tuple[str, ...]:
        """Observers whose answer has not expired."""
        return tuple(sorted(o for o, n in self._answered.items() if now - self._sent[n] < self._ttl))

    def _renew(self) -> None:
        sent = sorted((self._sent[n] for n in self._answered.values()), reverse=True)
        if len(sent) >= self._needed:
            least = sent[self._needed - 1]
            self._from = least if self._from is None else max(self._from, least)


@state_record("agent/", required=False)
class AgentNote(StateRecord):
    """A fence agent's note: the request for its lease, and the state of that lease."""

    agent: Label
    run: Label
    """Of the agent's process."""
    number: Counter
    """Of its newest request; observers give it back in their votes."""
    hold: Hold
    at_ms: Moment
    fenced: Flag = False
    """The fence command and the proof succeeded; stays set until a person lifts the fence."""
    evidence: Lines = ()
    """The proof, or why it is missing."""
    sequence: Counter = 0
    """Sequence number of this note; 0: the agent does not count its notes."""


def why_stale(note: AgentNote, wall_ms: int, ttl: float, margin: float) -> str:
    """Why a note is too old or too new by its own time; empty when it counts.

    :param wall_ms: our wall clock when the note arrived
    :param ttl: maximum age of the note, in seconds
    :param margin: seconds by which clocks may differ
    """
    late = (wall_ms - note.at_ms) / 1000
    if -margin <= late <= ttl + margin:
        return ""
    said = f"{late:.0f} s old" if late > 0 else f"{-late:.0f} s ahead of our clock"
    return f"its note is {said}: it proves no fence, and no lease"


class Agents:
    """The newest note of each agent, and when the agent last held a lease. Times are of our own clock.

    :param ttl_seconds: older notes do not count
    """

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._newest: dict[str, tuple[AgentNote, float]] = {}
        self._leased: dict[str, float] = {}

    def take(self, note: AgentNote, arrived: float, stale: str = "") -> None:
        """Store a note that arrived just now, while we listened.

        :param stale: see :func:`why_stale`; the request of a stale note is answered, but the note proves
            nothing: any client that may write to the topic can replay an older note
        """
        note = replace(note, fenced=False) if stale else note
        known = self._newest.get(note.agent)
        if known is not None and known[0].run == note.run and known[0].number > note.number:
            return  # an older note, through the slower of two topics
        self._newest[note.agent] = note, max(arrived, known[1] if known else arrived)
        if note.hold is Hold.LEASED and not note.fenced and not stale:
            self._leased[note.agent] = arrived
        elif note.hold is Hold.UNARMED:
            self._leased.pop(note.agent, None)  # the agent was stopped and guarantees nothing

    def forget(self, agent: str) -> None:
        """Drop what is known of an agent: two processes publish under its name."""
        self._newest.pop(agent, None)
        self._leased.pop(agent, None)

    def renewals(self, now: float) -> dict[str, int]:
        """Agent → request to answer, of agents with a fresh note, the longest known first.

        New names, of any writer, therefore take no answer away from an agent that is already known.
        """
        heard = ((a, n.number) for a, (n, at) in self._newest.items() if now - at <= self._ttl)
        return dict(islice(heard, MOST_AGENTS))

    def armed(self, lost_at: float) -> tuple[str, ...]:
        """Agents that watched the primary when it was lost, or have fenced it since.

        :param lost_at: when it was seen alive last
        """
        leased = {a for a, at in self._leased.items() if at >= lost_at - self._ttl}
        return tuple(sorted(leased | set(self.fenced(lost_at))))

    def fenced(self, lost_at: float) -> tuple[str, ...]:
        """Agents that reported, since the primary was lost or just before, that it is fenced."""
        return tuple(
            sorted(a for a, (n, at) in self._newest.items() if n.fenced and at >= lost_at - self._ttl)
        )

    def newest_notes(self) -> list[AgentNote]:
        """The newest note of each."""
        return [note for _, (note, _) in sorted(self._newest.items())]
