"""Votes of observers, and which of them count. Pure.

No single clock is trusted: a vote counts only when it arrived just now, while we were listening, and when
its own timestamp is new. A vote that waited in a queue, was read again after a restart, or comes from a
machine whose clock is wrong does not count. Too few votes hold a failover back, and never cause one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from drkit.detect.note_kinds import Counter, Label, Lines, Moment
from drkit.detect.seen import Sight
from drkit.flow_state.codec.fields import Map, Seconds
from drkit.flow_state.codec.record import StateRecord, state_record

MOST_AGENTS: Final = 1000
"""Fence agents whose requests one vote answers."""
_TWO: Final = 2


class Says(StrEnum):
    """What a vote says about the primary."""

    GONE = "gone"
    ALIVE = "alive"
    UNSURE = "unsure"


MEANS: Final[Mapping[Sight, Says]] = {
    Sight.CLEAR: Says.ALIVE,
    Sight.PARTIAL: Says.ALIVE,
    Sight.FEW: Says.ALIVE,
    Sight.REFUSING: Says.ALIVE,
    Sight.FADING: Says.UNSURE,
    Sight.BLIND: Says.UNSURE,
    Sight.WRONG: Says.UNSURE,
    Sight.GONE: Says.GONE,
}
"""A broker that answers anything is alive, in any state."""


@state_record("vote/", required=False)
class Vote(StateRecord):
    """An observer's published vote."""

    observer: Label
    run: Label
    """Identifies the observer's process; changes at a restart."""
    sequence: Counter
    at_ms: Moment
    """The observer's wall clock."""
    sight: Sight
    evidence: Lines = ()
    phi: Seconds | None = None
    quiet_seconds: Seconds | None = None
    """Since replication last moved, as this observer sees it; None: unknown."""
    abstained_seconds: Seconds = 0.0
    """Since this observer last renewed a lease of a fence agent, or since its start."""
    alive_ms: Moment | None = None
    """When this observer last saw a broker of the primary work, by its wall clock; None: never."""
    renews: Annotated[Map[Label, Counter], Field(max_length=MOST_AGENTS)] = field(default_factory=dict)
    """Fence agent → the newest request of its lease that this vote grants."""
    mode: Label = "approve"

    @property
    def says(self) -> Says:
        """What this vote says about the primary."""
        return MEANS[self.sight]


class Heard(NamedTuple):
    """A vote as it arrived."""

    vote: Vote
    arrived: float
    """Arrival time by our clock, which does not advance during a stall."""
    wall_ms: int
    """Our wall clock on arrival."""
    live: bool
    """The vote arrived after the topic was read to its end, so it is not an old record."""
    doubt: str = ""
    """Why its writer is not trusted, though its name is configured; empty: it is."""


class VoteRules(NamedTuple):
    """Times in seconds."""

    ttl: float = 5.0
    clock_margin: float = 2.0
    observers: int = 1
    """Number of observers, this one included."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The observers whose votes count now, and why other votes do not."""

    observers: int = 1
    gone: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    abstained_seconds: float | None = None
    """Shortest time without a lease renewal among the observers that say gone."""

    @property
    def quorum(self) -> int:
        """Votes for gone that a failover needs. Two configured observers never decide."""
        there = max(self.observers, len(self.gone) + len(self.alive) + len(self.unsure))
        return there + 1 if self.observers == _TWO else quorum(there)

    @property
    def is_decided(self) -> bool:
        """Whether enough observers say gone."""
        return len(self.gone) >= self.quorum

    def in_words(self) -> tuple[str, ...]:
        """The votes as evidence."""
        listed = [
            f"{says}: {', '.join(names)}"
            for says, names in (("gone", self.gone), ("alive", self.alive), ("unsure", self.unsure))
            if names
        ]
        there = len(self.gone) + len(self.alive) + len(self.unsure)
        head = (
            f"{len(self.gone)} of {max(self.observers, there)} observers say gone, {self.quorum} are needed"
        )
        more = (f"watch.observers = {self.observers}, but {there} vote: correct it, or stop the others",)
        return (head, *(more if there > self.observers else ()), *listed, *self.ignored)


def quorum(observers: int) -> int:
    """A majority. Of two observers three are needed: each of the two may be the one that is cut off."""
    return observers + 1 if observers == _TWO else observers // 2 + 1


def tally(
    own: Vote,
    heard: Iterable[Heard],
    now: float,
    rules: VoteRules,
    *,
    votes: bool = True,
    dropped: Iterable[str] = (),
) -> Tally:
    """Count the fresh votes.

    :param own: our current view; our earlier published votes are left out
    :param votes: we are one of the observers; else our view counts only when there are too few of them
    :param heard: from every topic; an observer's newest vote counts, and none while one is in doubt
    :param dropped: notes that were not read as votes, in words
    """
    all_heard = list(heard)
    newest = _newest(h for h in all_heard if h.vote.observer != own.observer)
    counted: dict[Says, list[str]] = {says: [] for says in Says}
    abstained, ignored = [], [*dropped]
    doubts = {h.vote.observer: h.doubt for h in all_heard if h.doubt}
    if own.observer in doubts:
        ignored.append(f"{own.observer}: {doubts.pop(own.observer)}")
    for name, h in sorted(newest.items()):
        if why := doubts.get(name) or why_not(h, now, rules):
            ignored.append(f"{name}: {why}")
            continue
        counted[h.vote.says].append(name)
        if h.vote.says is Says.GONE:
            abstained.append(h.vote.abstained_seconds)
    if votes or sum(map(len, counted.values())) < rules.observers:
        counted[own.says].append(own.observer)
        abstained += [own.abstained_seconds] if own.says is Says.GONE else []
    return Tally(
        rules.observers, tuple(sorted(counted[Says.GONE])), tuple(sorted(counted[Says.ALIVE])),
        tuple(sorted(counted[Says.UNSURE])), tuple(ignored), min(abstained, default=None),
    )  # fmt: skip


def _newest(heard: Iterable[Heard]) -> dict[str, Heard]:
    """The newest vote of each observer; the same one may have come through two topics."""
    by_run: dict[tuple[str, str], Heard] = {}
    for h in heard:
        key = h.vote.observer, h.vote.run
        if key not in by_run or h.vote.sequence > by_run[key].vote.sequence:
            by_run[key] = h
    newest: dict[str, Heard] = {}
    for (observer, _), h in by_run.items():
        if observer not in newest or h.arrived > newest[observer].arrived:
            newest[observer] = h
    return newest


def why_not(h: Heard, now: float, rules: VoteRules) -> str:
    """Why a vote does not count; empty when it does."""
    age = now - h.arrived
    if not h.live:
        return "written before we listened"
    if age > rules.ttl:
        return f"its last vote came {age:.1f} s ago"
    late = (h.wall_ms - h.vote.at_ms) / 1000
    if late > rules.ttl + rules.clock_margin:
        return f"its vote was {late:.1f} s on its way, or its clock is slow"
    if late < -rules.clock_margin:
        return f"its clock is {-late:.1f} s ahead of this host's"
    return ""
