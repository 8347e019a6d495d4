"""What observers know of fence agents: who is armed, who has fenced. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import ClassVar

from drkit.detect.lease import Hold
from drkit.detect.shapes import count, label, lines, moment
from drkit.detect.votes import MOST_AGENTS
from drkit.flow_state.codec.body import record, stored
from drkit.flow_state.codec.fields import flag, member
from drkit.flow_state.codec.record import StateRecord


@record
class AgentNote(StateRecord):
    """What an agent published: a request for its lease, and how it stands."""

    KEY: ClassVar[str] = "agent/"
    REQUIRED: ClassVar[bool] = False

    agent: str = stored(label)
    run: str = stored(label)
    """Of the agent's process."""
    number: int = stored(count)
    """Of its newest request; observers give it back in their votes."""
    hold: Hold = stored(member(Hold))
    at_ms: int = stored(moment)
    fenced: bool = stored(flag, default=False)
    """Its command ended well and the proof succeeded; stays so until a person lifts it."""
    evidence: tuple[str, ...] = stored(lines, default=())
    """The proof, or why there is none."""
    sequence: int = stored(count, default=0)
    """Of this note; 0: of an agent that did not count its notes yet."""


def why_stale(note: AgentNote, wall_ms: int, ttl: float, margin: float) -> str:
    """Why a note says nothing of now, by its own time; empty when it does.

    :param wall_ms: our wall clock when it arrived
    :param ttl: seconds that it may have waited
    :param margin: seconds by which clocks may differ
    """
    late = (wall_ms - note.at_ms) / 1000
    if -margin <= late <= ttl + margin:
        return ""
    said = f"{late:.0f} s old" if late > 0 else f"{-late:.0f} s ahead of our clock"
    return f"its note is {said}: it proves no fence, and no lease"


class Agents:
    """The newest of each agent, and when it last held a lease. Times are those of our own clock.

    :param ttl_seconds: what is older tells nothing of now
    """

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._newest: dict[str, tuple[AgentNote, float]] = {}
        self._leased: dict[str, float] = {}

    def take(self, note: AgentNote, arrived: float, stale: str = "") -> None:
        """A note that arrived just now, while we listened.

        :param stale: see :func:`why_stale`; then its request is answered, but it proves nothing: whoever may
            write to the topic can write an older note once more
        """
        note = replace(note, fenced=False) if stale else note
        known = self._newest.get(note.agent)
        if known is not None and known[0].run == note.run and known[0].number > note.number:
            return  # by the slower of two topics
        self._newest[note.agent] = note, max(arrived, known[1] if known else arrived)
        if note.hold is Hold.LEASED and not note.fenced and not stale:
            self._leased[note.agent] = arrived
        elif note.hold is Hold.UNARMED:
            self._leased.pop(note.agent, None)  # it was stopped, and promises nothing

    def forget(self, agent: str) -> None:
        """Nothing is known of an agent under whose name two processes publish."""
        self._newest.pop(agent, None)
        self._leased.pop(agent, None)

    def renewals(self, now: float) -> dict[str, int]:
        """The requests to answer: those of agents that were heard just now, the longest known first.

        So the names of many more, whoever wrote them, take no answer from an agent that was there before.
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
        """Agents that say, since the primary was lost or just before, that it is fenced."""
        return tuple(
            sorted(a for a, (n, at) in self._newest.items() if n.fenced and at >= lost_at - self._ttl)
        )

    def told(self) -> list[AgentNote]:
        """The newest note of each."""
        return [note for _, (note, _) in sorted(self._newest.items())]
