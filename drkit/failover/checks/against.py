"""The refusals of `drkit failover` for the reasons that it shares with `drkit watch`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from drkit.counted import first_of
from drkit.detect.reasons import ROW, Flag, Reason, ReasonRow
from drkit.errors import Refused
from drkit.failover.checks.survey import Survey
from drkit.failover.core.context import Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.risk import held_text

_ACCEPT: Final = 'accept the loss: --accept-data-loss "REASON"'


class PreconditionInput(NamedTuple):
    """The input of the preconditions."""

    survey: Survey
    scope: Scope
    request: RunRequest
    flow: str


Sentence = Callable[[PreconditionInput, ReasonRow], Refused]


def by_the_table(*reasons: Reason) -> Callable[[PreconditionInput], Iterator[Refused]]:
    """Return a check that refuses for each of the reasons that applies, unless its flag is given."""

    def check(q: PreconditionInput) -> Iterator[Refused]:
        for row in map(ROW.__getitem__, reasons):
            if row.applies(q.survey.facts) and not overruled(row, q.request):
                yield _SENTENCES[row.reason](q, row)

    return check


def overruled(row: ReasonRow, request: RunRequest) -> bool:
    """Whether a person overrules a reason, on record."""
    if request.planned and row.flag in {Flag.DATA_LOSS, Flag.QUORUM}:
        return True  # a switchover waits until everything is copied, and is refused without the primary
    given = {
        Flag.SIGNS_OF_LIFE: request.despite_signs_of_life,
        Flag.QUORUM: request.without_quorum,
        Flag.DATA_LOSS: request.accept_data_loss,
    }
    return row.flag is not None and bool(given[row.flag])


def _paused(q: PreconditionInput, row: ReasonRow) -> Refused:
    return Refused(
        "failovers_paused", where=q.flow, evidence=_seen(q, row), hint=f"drkit watch resume --flow '{q.flow}'"
    )


def _unready(q: PreconditionInput, row: ReasonRow) -> Refused:
    return Refused("target_not_ready", where=q.survey.target.alias, evidence=_seen(q, row))


def _unprotected(q: PreconditionInput, row: ReasonRow) -> Refused:
    return Refused("not_copied_back", where=q.flow, evidence=_seen(q, row), source=q.survey.source.alias)


def _alive(q: PreconditionInput, row: ReasonRow) -> Refused:
    here = "" if row.reason is Reason.OBSERVERS_DISAGREE else f"; here: {q.survey.source_error}"
    # A switchover is refused without the primary, whatever is accepted.
    accept = '; or, if no application reaches it: --despite-signs-of-life "REASON"'
    return Refused(
        "source_alive",
        where=q.survey.source.alias,
        evidence=_seen(q, row) + here,
        accept="" if q.request.planned else accept,
    )


def _no_quorum(q: PreconditionInput, row: ReasonRow) -> Refused:
    return Refused("no_quorum", where=q.survey.source.alias, evidence=_seen(q, row))


def _clocks(q: PreconditionInput, row: ReasonRow) -> Refused:
    return Refused("heartbeats_from_the_future", where=q.flow, evidence=_seen(q, row))


def _loss_unknown(q: PreconditionInput, row: ReasonRow) -> Refused:  # noqa: ARG001  one signature for all
    return Refused("loss_unknown", where=q.flow, evidence=_missing(q))


def _loss_above(q: PreconditionInput, row: ReasonRow) -> Refused:  # noqa: ARG001  one signature for all
    facts, primary = q.survey.facts, q.survey.source.alias
    caught_up = f"bring {primary} back" if q.survey.source_error else "let the copy catch up: drkit status"
    return Refused(
        "rpo_exceeded",
        where=q.flow,
        evidence=f"up to {facts.risk.above:,.1f} s, rpo_seconds = {facts.rpo_seconds:g}; {_missing(q)}",
        hint=f"{caught_up}; or {_ACCEPT}",
    )


def _seen(q: PreconditionInput, row: ReasonRow) -> str:
    return first_of(row.evidence(q.survey.facts))


def _missing(q: PreconditionInput) -> str:
    risk = q.survey.risk
    known = "an unknown number of" if risk.records is None else f"{risk.records:,}"
    held = held_text(risk.held_back, risk.acknowledged)
    return f"{known} records known to be missing{', of them ' if held else ''}{held}; {risk.basis}"


_SENTENCES: Final[dict[Reason, Sentence]] = {
    Reason.REPLICATION_MOVES: _alive,
    Reason.OBSERVERS_DISAGREE: _alive,
    Reason.NO_QUORUM: _no_quorum,
    Reason.TARGET_UNREACHABLE: _unready,
    Reason.TARGET_NOT_READY: _unready,
    Reason.PAUSED: _paused,
    Reason.NOT_PROTECTED: _unprotected,
    Reason.BEATS_UNKNOWN: _loss_unknown,
    Reason.CLOCKS_DISAGREE: _clocks,
    Reason.LAG_UNKNOWN: _loss_unknown,
    Reason.LAG_ABOVE_RPO: _loss_above,
}
