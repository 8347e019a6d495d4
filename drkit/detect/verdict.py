"""The one table: the state of the primary, and whether a failover may begin. Pure.

The rows are evaluated top to bottom; the first match wins. LOST is the last row: it is only reached when no
row above matches. docs/explanation/detection.md is generated from this table, and each HOLD has a runbook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from drkit.detect import reasons
from drkit.detect.reasons import FailoverFacts, Reason, runbook
from drkit.detect.risk import Risk, unknown
from drkit.detect.seen import NOTHING_SEEN, Sight, SourceView
from drkit.detect.votes import Tally

UNKNOWN: Final = unknown("not known yet")


@dataclass(frozen=True, slots=True)
class AutoFacts:
    """The conditions of an automatic failover, other than a lost primary."""

    last_seconds: float | None = None
    """Since the last automatic failover of this flow, or None before the first one."""
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
    """Suspicion by heartbeats, or None before the first one."""
    threshold: float = 8.0
    beat_silence: float | None = None
    """Since the last heartbeat arrived, or None before the first one."""
    beat_ahead: float = 0.0
    """How far the newest heartbeat is ahead of our clock, if too far to count; else 0."""
    moved_ago: float | None = None
    """Since replication last moved anything, heartbeats included, or None if that was not seen yet."""
    moved_what: str = ""
    """Which copy grew last."""
    watched_for: float | None = None
    """Since the watch can see whether copies grow, or None if it cannot."""
    still_seconds: float = 5.0
    """Replication that moved within this time still moves."""
    run_held: str = ""
    """The run of this flow that waits for a person, with its commands, or an empty text."""
    failing_over: str = ""
    """The failover of this flow that is in progress, with its step, or an empty text."""
    promoted: bool = False
    """The target's topics were opened for producers already."""
    since_promoted: tuple[str, ...] = ()
    """Of a promoted flow: the alarms of its pair, and that clients are back on its source."""
    fence_owed: str = ""
    """The run that left a fence of the old primary pending, and the command for it, or an empty text."""
    target_answers: bool = True
    target_error: str = ""
    tally: Tally = field(default_factory=Tally)
    paused: str = ""
    """The person who paused failovers, with the reason, or an empty text."""
    blockers: tuple[str, ...] = ()
    """Findings on the target that no failover may pass over."""
    unprotected: tuple[str, ...] = ()
    """Topics that lack records on the target: a failback copies them to it, or will."""
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
        """Seconds for which fence agents prove that the primary takes no writes, or None without proof."""
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
        """True while the watch is too young to have seen that a copy grows."""
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
        """Yield the times of the last heartbeat and of the last growth of a copy."""
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


class VerdictKind(IntEnum):
    """Severity: more evidence against the primary never leads to a lower one."""

    UP = 0
    SUSPECT = 1
    DEGRADED = 2
    HOLD = 3
    LOST = 4


class VerdictRow(NamedTuple):
    """One line of the table."""

    kind: VerdictKind
    reason: Reason
    when: Callable[[Picture], bool]
    condition: str
    """`when` in words."""
    evidence: Callable[[Picture], Iterable[str]]
    next: str
    """What the operator does."""


class Verdict(NamedTuple):
    """The result of the table, with its evidence."""

    kind: VerdictKind
    reason: Reason
    evidence: tuple[str, ...]
    next: str
    primary_lost: bool = False
    """The primary is lost, even if the failover is held back."""
    obstacles: tuple[Reason, ...] = ()
    """All reasons that hold the failover back then."""

    @property
    def name(self) -> str:
        """Such as ``HOLD(paused)``; ``FAILING OVER`` while a failover is under way."""
        if self.reason is Reason.FAILING_OVER:
            return "FAILING OVER"
        return f"HOLD({self.reason})" if self.kind is VerdictKind.HOLD else self.kind.name

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "verdict": self.kind.name,
            "reason": self.reason.value,
            "evidence": list(self.evidence),
            "next": self.next,
            "runbook": runbook(self.reason) if self.kind is VerdictKind.HOLD else "",
            "primary_lost": self.primary_lost,
            "obstacles": [o.value for o in self.obstacles],
        }


def _path(p: Picture) -> Iterable[str]:
    yield from p.beats_in_words()
    yield from p.seen.evidence


def _promoted(p: Picture) -> Iterable[str]:
    if p.fence_owed:
        yield f"the old primary was never fenced, {p.fence_owed}"
    yield from p.since_promoted
    yield from p.seen.evidence


def _all(p: Picture) -> Iterable[str]:
    yield from p.seen.evidence
    yield from p.beats_in_words()
    yield from p.tally.in_words()
    yield f"the loss would be: {p.risk.in_words}; rpo_seconds = {p.rpo_seconds:g}"


def _automatic(p: Picture) -> Iterable[str]:
    a = p.auto
    if a is not None and a.last_seconds is not None:
        said = "" if a.acknowledged else ", and it is not acknowledged"
        yield (
            f"the last automatic failover was {a.last_seconds:.0f} s ago, window_seconds = "
            f"{a.window_seconds:g}{said}"
        )


def _agents(p: Picture) -> Iterable[str]:
    a = p.auto
    if a is not None:
        yield f"{len(a.agents_armed)} of {a.agents} fence agents held a lease: {_names(a.agents_armed)}"
        yield f"fenced, with proof: {_names(a.agents_fenced)}"
        waited = p.tally.abstained_seconds
        yield f"no lease renewed for {waited or 0.0:.1f} s, failover_delay_seconds = {a.delay_seconds:g}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _blocked_by_window(a: AutoFacts) -> bool:
    return not a.acknowledged or (a.last_seconds is not None and a.last_seconds < a.window_seconds)


def _not_fenced(p: Picture, a: AutoFacts) -> bool:
    waited = p.tally.abstained_seconds
    return not p.fenced and (waited is None or waited < a.delay_seconds)


def _row(row: reasons.ReasonRow) -> VerdictRow:
    """A table row for a reason against a failover."""
    return VerdictRow(
        VerdictKind.HOLD, row.reason, lambda p: row.applies(p.facts), row.condition,
        lambda p: row.evidence(p.facts), row.next,
    )  # fmt: skip


_S, _R, _K = Sight, Reason, VerdictKind
_HELD: Final = "the primary is lost, and "

ABOUT_THE_PRIMARY: Final[tuple[VerdictRow, ...]] = (
    VerdictRow(_K.HOLD, _R.RUN_HELD, lambda p: bool(p.run_held),
        "a failover or a return of this flow waits for a person", lambda p: (p.run_held, *p.seen.evidence),
        "clear the reason; the evidence has the commands that continue the run, and roll it back"),
    VerdictRow(_K.DEGRADED, _R.FAILING_OVER, lambda p: bool(p.failing_over),
        "a failover of this flow is under way", lambda p: (p.failing_over, *p.seen.evidence),
        "wait: drkit status shows its step"),
    VerdictRow(_K.HOLD, _R.PROMOTED, lambda p: p.promoted,
        "the target was promoted already", _promoted,
        "nothing here: drkit status says where clients write; watch the flow from that cluster"),
    VerdictRow(_K.HOLD, _R.WRONG_CLUSTER, lambda p: p.seen.sight is _S.WRONG,
        "another cluster id answers at the primary's addresses", lambda p: p.seen.evidence,
        "correct bootstrap_servers or the name service"),
    VerdictRow(_K.UP, _R.WELL, lambda p: p.seen.sight is _S.CLEAR and not p.beats_late,
        "every broker works on every listener, heartbeats arrive", Picture.beats_in_words, "nothing"),
    VerdictRow(_K.SUSPECT, _R.BEATS_LATE, lambda p: p.seen.sight is _S.CLEAR,
        "every broker works, but heartbeats are late: phi over its threshold", Picture.beats_in_words,
        "drkit status: the copy, the link or the target is stalled"),
    VerdictRow(_K.SUSPECT, _R.UNCONFIRMED, lambda p: p.seen.sight is _S.FADING,
        "something fails, for less than confirm_seconds", _path, "wait"),
    VerdictRow(_K.DEGRADED, _R.BROKERS_DOWN, lambda p: p.seen.sight is _S.PARTIAL,
        "less than half of the brokers fail, or one listener of some", _path, "repair these brokers"),
    VerdictRow(_K.HOLD, _R.BROKERS_LOST, lambda p: p.seen.sight is _S.FEW,
        "half of the brokers or more fail, but not all", _path,
        "repair them, or decide on a switchover"),
    VerdictRow(_K.HOLD, _R.WRITES_REFUSED, lambda p: p.seen.sight is _S.REFUSING,
        "brokers answer, but none takes a record", _path,
        "fenced already? a full disk? see the runbook"),
    VerdictRow(_K.HOLD, _R.BLIND, lambda p: p.seen.sight is _S.BLIND,
        "this observer is blind: DNS fails, credentials are refused, or its process was paused", _path,
        "repair the observer; ask another one"),
    # Below: no broker answers on any listener, and that is confirmed.
    *(_row(row) for row in reasons.ABOUT_THE_PRIMARY),
    VerdictRow(_K.HOLD, _R.NOT_WATCHED_YET, lambda p: p.is_fresh,
        "no broker answers this observer, and it has watched for too short a time to see whether records"
        " arrive", _path, "wait: confirm_seconds"),
)  # fmt: skip
"""States of the primary. No match: the primary is lost."""

AGAINST_A_FAILOVER: Final[tuple[VerdictRow, ...]] = (
    *(_row(row) for row in reasons.AGAINST_A_FAILOVER),
    VerdictRow(_K.HOLD, _R.NOT_ACKNOWLEDGED, lambda p: p.auto is not None and _blocked_by_window(p.auto),
        _HELD + "mode auto already acted within its window, or that is not acknowledged", _automatic,
        "drkit watch acknowledge; or drkit failover --all"),
    VerdictRow(_K.HOLD, _R.NO_FENCE_AGENT,
        lambda p: p.auto is not None and len(p.auto.agents_armed) < p.auto.agents,
        _HELD + "in mode auto, too few fence agents watched it", _agents,
        "make sure that no client writes to it, then drkit failover --all"),
    VerdictRow(_K.HOLD, _R.NOT_FENCED_YET, lambda p: p.auto is not None and _not_fenced(p, p.auto),
        _HELD + "in mode auto, its fence agents may not have fenced yet", _agents,
        "wait: failover_delay_seconds"),
)  # fmt: skip
"""What holds a failover back when the primary is lost."""

LOST: Final = VerdictRow(
    VerdictKind.LOST, Reason.CONFIRMED, lambda _: True,
    "no broker answers, replication is stalled, enough observers agree, nothing speaks against a failover",
    _all, "drkit failover --all",
)  # fmt: skip

TABLE: Final = (*ABOUT_THE_PRIMARY, *AGAINST_A_FAILOVER, LOST)


def judge(picture: Picture) -> Verdict:
    """The verdict on a picture."""
    for row in ABOUT_THE_PRIMARY:
        if row.when(picture):
            return Verdict(row.kind, row.reason, tuple(row.evidence(picture)), row.next)
    against = [row for row in AGAINST_A_FAILOVER if row.when(picture)]
    row = against[0] if against else LOST
    evidence = [line for r in against for line in r.evidence(picture)] or list(row.evidence(picture))
    return Verdict(
        row.kind, row.reason, tuple(dict.fromkeys(evidence)), row.next, primary_lost=True,
        obstacles=tuple(r.reason for r in against),
    )  # fmt: skip
