"""What observers know about fence agents: which are armed and which have fenced. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

from drkit.detect.lease import Hold
from drkit.detect.note_kinds import Counter, Label, Lines, Moment
from drkit.detect.votes import MOST_AGENTS
from drkit.flow_state.codec.fields import Flag
from drkit.flow_state.codec.record import StateRecord


@dataclass(frozen=True, slots=True)
class AgentNote(StateRecord):
    """A fence agent's note: the request for its lease, and the state of that lease."""

    KEY: ClassVar[str] = "agent/"
    REQUIRED: ClassVar[bool] = False

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
