"""All input of a verdict, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk, unknown
from drkit.detect.seen import NOTHING_SEEN, SourceView
from drkit.detect.votes import Tally

UNKNOWN: Final = unknown("not known yet")


@dataclass(frozen=True, slots=True)
class AutoFacts:
    """What an automatic failover needs besides a lost primary."""

    last_seconds: float | None = None
    """Since the last automatic failover of this flow; None: there was none."""
    acknowledged: bool = True
    """A person has acknowledged it since."""
    window_seconds: float = 3600.0
    agents: int = 1
    """How many fence agents must watch the primary."""
    agents_armed: tuple[str, ...] = ()
    """Those that held a lease from us until the primary was lost, or have fenced since."""
    agents_fenced: tuple[str, ...] = ()
    """Agents with proof that the primary takes no more writes."""
    delay_seconds: float = 25.0
    """Time without a renewal after which a failover may begin."""
    fenced_within_seconds: float = 24.0
    """Time without a renewal after which every agent has fenced, even if it cannot report that."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment. Times in seconds."""

    seen: SourceView = NOTHING_SEEN
    gone_for: float = 0.0
    """Since every address began to fail; 0 while one works."""
    phi: float | None = None
    """Suspicion by heartbeats; None: none ever arrived."""
    threshold: float = 8.0
    beat_silence: float | None = None
    """Since the last heartbeat arrived; None: none ever arrived."""
    beat_ahead: float = 0.0
    """How far the newest heartbeat is ahead of our clock, if too far to count; else 0."""
    moved_ago: float | None = None
    """Since replication last moved anything, heartbeats included; None: not seen yet."""
    moved_what: str = ""
    """Which copy grew last."""
    watched_for: float | None = None
    """Since we began to see whether copies grow; None: we do not see it."""
    still_seconds: float = 5.0
    """Replication that moved within this time still moves."""
    promoted: bool = False
    """The target's topics were opened for producers already."""
    since_promoted: tuple[str, ...] = ()
    """Of a promoted flow: the alarms of its pair, and that clients are back on its source."""
    fence_owed: str = ""
    """What left a pending fence of the old primary, and what applies it; empty: none is pending."""
    target_answers: bool = True
    target_error: str = ""
    tally: Tally = field(default_factory=Tally)
    paused: str = ""
    """Who paused failovers and why; empty: not paused."""
    blockers: tuple[str, ...] = ()
    """Findings on the target that no failover may pass over."""
    unprotected: tuple[str, ...] = ()
    """Topics that the target has not wholly: they come back to it, or are to come back."""
    risk: Risk = UNKNOWN
    rpo_seconds: float = 30.0
    auto: AutoFacts | None = None
    """None: a person decides."""

    @property
    def beats_late(self) -> bool:
        """Heartbeats stay away for longer than they ever did while all was well."""
        return self.phi is not None and self.phi >= self.threshold

    @property
    def dead_for(self) -> float | None:
        """How long the primary takes no writes any more, proven by its fence agents; None: it is not."""
        a, waited = self.auto, self.tally.abstained_seconds
        by_times = None
        if a is not None and waited is not None and 0 < a.agents <= len(a.agents_armed):
            by_times = waited - a.fenced_within_seconds
        if self.fenced:
            return max(0.0, by_times or 0.0)
        return by_times if by_times is not None and by_times >= 0 else None

    @property
    def fenced(self) -> bool:
        """Every fence agent has proof that the primary takes no more writes."""
        return self.auto is not None and 0 < self.auto.agents <= len(self.auto.agents_fenced)

    @property
    def moves(self) -> bool:
        """Replication moved recently, or its heartbeats are not late."""
        recent = self.moved_ago is not None and self.moved_ago < self.still_seconds
        return recent or (self.phi is not None and not self.beats_late)

    @property
    def is_fresh(self) -> bool:
        """Whether a copy that moves may not have been seen moving yet."""
        return self.target_answers and self.watched_for is not None and self.watched_for < self.still_seconds

    @property
    def facts(self) -> FailoverFacts:
        """Reasons against a failover of a primary that this observer does not reach."""
        beats, votes = tuple(self.beats_in_words()), self.tally.in_words()
        seen, tally = self.seen.evidence, self.tally
        ahead = f"the newest heartbeat is {self.beat_ahead:,.0f} s ahead of this machine's clock"
        return FailoverFacts(
            self.risk,
            self.rpo_seconds,
            moving=(*beats, *seen) if self.moves else (),
            unreachable=() if self.target_answers else (*beats, *seen),
            no_heartbeat=(*beats, *seen) if self.phi is None else (),
            clocks=(ahead,) if self.beat_ahead else (),
            alive=(*votes, *seen) if tally.alive and not self.fenced else (),
            undecided=() if tally.is_decided else (*votes, *seen),
            paused=(self.paused,) if self.paused else (),
            unready=self.blockers,
            unprotected=self.unprotected,
        )

    def beats_in_words(self) -> Iterator[str]:
        """When heartbeats and the copy moved last."""
        if self.phi is None or self.beat_silence is None:
            yield "no heartbeat of this flow ever arrived"
        else:
            yield (
                f"the last heartbeat arrived {self.beat_silence:.1f} s ago, phi {self.phi:.1f} of"
                f" {self.threshold:g}"
            )
        if self.moved_ago is not None:
            what = f" ({self.moved_what})" if self.moved_what else ""
            yield f"the last replicated record arrived {self.moved_ago:.1f} s ago{what}"
        if self.is_fresh:
            yield (
                f"not watched long enough: for {self.watched_for:.1f} s; a copy that still moves is seen"
                f" within {self.still_seconds:g} s"
            )
        if not self.target_answers:
            yield f"the target does not answer: {self.target_error}"
