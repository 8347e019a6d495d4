"""The one table: the state of the primary, and whether a failover may begin. Pure.

The rows are evaluated top to bottom; the first match wins. LOST is the last row: it is only reached when no
row above matches. docs/explanation/detection.md is generated from this table, and each HOLD has a runbook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from drkit.detect import reasons
from drkit.detect.picture import AutoFacts, Picture
from drkit.detect.reasons import Reason, runbook
from drkit.detect.seen import Sight


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
        """Such as ``HOLD(paused)``."""
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


def _seen(p: Picture) -> Iterable[str]:
    yield from p.seen.evidence


def _beats(p: Picture) -> Iterable[str]:
    return p.beats_in_words()


def _path(p: Picture) -> Iterable[str]:
    yield from _beats(p)
    yield from _seen(p)


def _promoted(p: Picture) -> Iterable[str]:
    if p.fence_owed:
        yield f"the old primary was never fenced, {p.fence_owed}"
    yield from p.since_promoted
    yield from _seen(p)


def _all(p: Picture) -> Iterable[str]:
    yield from _seen(p)
    yield from _beats(p)
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
    VerdictRow(_K.HOLD, _R.PROMOTED, lambda p: p.promoted,
        "the target was promoted already", _promoted,
        "nothing here: drkit status says where clients write; watch the flow from that cluster"),
    VerdictRow(_K.HOLD, _R.WRONG_CLUSTER, lambda p: p.seen.sight is _S.WRONG,
        "another cluster id answers at the primary's addresses", _seen,
        "correct bootstrap_servers or the name service"),
    VerdictRow(_K.UP, _R.WELL, lambda p: p.seen.sight is _S.CLEAR and not p.beats_late,
        "every broker works on every listener, heartbeats arrive", _beats, "nothing"),
    VerdictRow(_K.SUSPECT, _R.BEATS_LATE, lambda p: p.seen.sight is _S.CLEAR,
        "every broker works, but heartbeats are late: phi over its threshold", _beats,
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
