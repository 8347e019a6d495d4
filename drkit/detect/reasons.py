"""The reasons not to fail over: one table, asked by `drkit watch` and by `drkit failover`. Pure.

Both collect the same facts themselves and evaluate the same rows: a reason applies when it has evidence.
`drkit watch` then holds the failover, mode auto included; `drkit failover` refuses until a person overrules
the reason by the flag that the row names, which is journalled with its reason. docs/explanation/failover.md
is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from drkit.detect.risk import Risk


class Reason(StrEnum):
    """The reason of a verdict; of HOLD, also the name of its runbook."""

    WELL = "well"
    BEATS_LATE = "heartbeats_late"
    UNCONFIRMED = "unconfirmed"
    BROKERS_DOWN = "brokers_down"
    RUN_HELD = "run_held"
    FAILING_OVER = "failing_over"
    PROMOTED = "promoted"
    WRONG_CLUSTER = "wrong_cluster"
    BROKERS_LOST = "brokers_lost"
    WRITES_REFUSED = "writes_refused"
    BLIND = "blind"
    REPLICATION_MOVES = "replication_moves"
    NOT_WATCHED_YET = "not_watched_yet"
    BEATS_UNKNOWN = "heartbeats_unknown"
    CLOCKS_DISAGREE = "clocks_disagree"
    TARGET_UNREACHABLE = "target_unreachable"
    OBSERVERS_DISAGREE = "observers_disagree"
    NO_QUORUM = "no_quorum"
    PAUSED = "paused"
    TARGET_NOT_READY = "target_not_ready"
    NOT_PROTECTED = "not_protected"
    LAG_UNKNOWN = "lag_unknown"
    LAG_ABOVE_RPO = "lag_above_rpo"
    NOT_ACKNOWLEDGED = "not_acknowledged"
    NO_FENCE_AGENT = "no_fence_agent"
    NOT_FENCED_YET = "not_fenced_yet"
    CONFIRMED = "confirmed"


def runbook(reason: Reason) -> str:
    """The page about a HOLD, below the project's root."""
    return f"runbooks/{page_name(reason)}.md"


def page_name(reason: Reason) -> str:
    """Return the name with which ``drkit explain`` prints the page about a HOLD."""
    return f"hold-{reason.value.replace('_', '-')}"


class Flag(StrEnum):
    """A flag with which a person overrules a reason; each takes a justification."""

    SIGNS_OF_LIFE = "--despite-signs-of-life"
    QUORUM = "--without-quorum"
    DATA_LOSS = "--accept-data-loss"


class FailoverFacts(NamedTuple):
    """Evidence against a failover, in words; an empty tuple: there is no evidence.

    The first six fields are about a primary that does not answer us; while it answers, they are empty.
    """

    risk: Risk
    rpo_seconds: float
    moving: tuple[str, ...] = ()
    """Replication still moves, or its heartbeats are not late yet."""
    unreachable: tuple[str, ...] = ()
    """The target does not answer."""
    no_heartbeat: tuple[str, ...] = ()
    """No heartbeat of the flow ever arrived."""
    clocks: tuple[str, ...] = ()
    """The newest heartbeats are from the future."""
    alive: tuple[str, ...] = ()
    """Another observer gets an answer from the primary, and it is not fenced."""
    undecided: tuple[str, ...] = ()
    """Too few observers say that it is gone."""
    paused: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    """Why the target is not ready to take over."""
    unprotected: tuple[str, ...] = ()
    """Topics that the target has not wholly: they come back to it, or are to come back."""

    def to_json(self) -> dict[str, Any]:
        """For the journal; the loss has an entry of its own there."""
        named = self._asdict().items()
        return {k: list(v) if isinstance(v, tuple) else v for k, v in named if k != "risk"}


class ReasonRow(NamedTuple):
    """One reason."""

    reason: Reason
    condition: str
    """In words."""
    evidence: Callable[[FailoverFacts], Iterable[str]]
    next: str
    """What the operator does about it."""
    flag: Flag | None
    """The flag that overrules it in `drkit failover`; None: no flag does."""
    gate: str
    """The refusal of `drkit failover`, and the name of its page."""

    def applies(self, facts: FailoverFacts) -> bool:
        """Whether there is evidence."""
        return any(True for _ in self.evidence(facts))


def _risk(facts: FailoverFacts) -> Iterable[str]:
    risk = facts.risk
    yield f"the loss would be: {risk.in_words}"
    if risk.records is not None:
        yield f"missing on the target: {risk.records_in_words}"
    yield f"rpo_seconds = {facts.rpo_seconds:g}"


def _large_loss(facts: FailoverFacts) -> Iterable[str]:
    known = facts.risk.seconds
    return _risk(facts) if known is not None and known > facts.rpo_seconds else ()


_R: Final = Reason
_HELD: Final = "the primary is lost, and "
_ACCEPT: Final = "drkit failover --all --accept-data-loss REASON"
_REPAIR: Final = "fix the network path from here to the primary"

ABOUT_THE_PRIMARY: Final[tuple[ReasonRow, ...]] = (
    ReasonRow(_R.REPLICATION_MOVES,
        "no broker answers this observer, but records are still arriving, or heartbeats are not late yet",
        lambda f: f.moving, _REPAIR, Flag.SIGNS_OF_LIFE, "failover-signs-of-life"),
    ReasonRow(_R.TARGET_UNREACHABLE, "neither the primary nor the target answers this observer",
        lambda f: f.unreachable,
        "repair the target or the network path to it: nothing can be decided without it", None,
        "failover-target-not-ready"),
    ReasonRow(_R.BEATS_UNKNOWN,
        "no broker answers this observer, and no heartbeat ever arrived",
        lambda f: f.no_heartbeat, "check the primary; enable heartbeats (emit_heartbeats)",
        Flag.DATA_LOSS, "failover-data-loss"),
    ReasonRow(_R.CLOCKS_DISAGREE,
        "no broker answers this observer, and the newest heartbeats are from the future: they do not count",
        lambda f: f.clocks, "correct the clocks of this machine and of the replicator's (NTP)",
        Flag.DATA_LOSS, "failover-data-loss"),
    ReasonRow(_R.OBSERVERS_DISAGREE, "another observer sees the primary alive, and it is not fenced",
        lambda f: f.alive, _REPAIR, Flag.SIGNS_OF_LIFE, "failover-signs-of-life"),
    ReasonRow(_R.NO_QUORUM, "too few observers report it as lost", lambda f: f.undecided,
        "start the missing observers, or decide yourself: drkit failover --all --without-quorum REASON",
        Flag.QUORUM, "failover-no-quorum"),
)  # fmt: skip
"""Reasons that contradict the loss of the primary."""

AGAINST_A_FAILOVER: Final[tuple[ReasonRow, ...]] = (
    ReasonRow(_R.PAUSED, _HELD + "failovers are paused", lambda f: f.paused, "drkit watch resume",
        None, "failover-paused"),
    ReasonRow(_R.NOT_PROTECTED, _HELD + "some topics are not completely copied back",
        lambda f: f.unprotected, _ACCEPT, Flag.DATA_LOSS, "failover-data-loss"),
    ReasonRow(_R.TARGET_NOT_READY, _HELD + "the target is not ready to take over", lambda f: f.unready,
        "clear what is named", None, "failover-target-not-ready"),
    ReasonRow(_R.LAG_UNKNOWN, _HELD + "the data loss of a failover is unknown",
        lambda f: _risk(f) if f.risk.seconds is None else (), _ACCEPT, Flag.DATA_LOSS, "failover-data-loss"),
    ReasonRow(_R.LAG_ABOVE_RPO, _HELD + "the data loss would exceed rpo_seconds", _large_loss, _ACCEPT,
        Flag.DATA_LOSS, "failover-data-loss"),
)  # fmt: skip
"""Reasons against a failover, whether the primary is lost or not."""

ROWS: Final = (*ABOUT_THE_PRIMARY, *AGAINST_A_FAILOVER)
"""All rows, in the order in which they are reported."""

ROW: Final = {row.reason: row for row in ROWS}


def against(facts: FailoverFacts) -> list[ReasonRow]:
    """Every reason that applies."""
    return [row for row in ROWS if row.applies(facts)]
