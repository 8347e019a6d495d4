"""Display of a failover: lines on stderr while it runs, a short report at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from drkit.cli.screens.reprotect import held_in_words, shown_return, steps_of
from drkit.cli.session import to_type
from drkit.cli.talk import say_rows
from drkit.counted import counted, first_of
from drkit.failover.core.context import StepProgress
from drkit.failover.proposal import Planned, Proposal, Rehearsal
from drkit.journal.machine import RETURN, StepName
from drkit.status.lag.source import held_text

_SHOWN = 10
_NO_WAY = "none is repointed, because [failover] repoint has no endpoint for them: move them yourself"


class Progressing:
    """Progress on stderr: one line for each fact.

    Of the last step only its name is shown: the report below has its notes.
    """

    def __init__(self) -> None:
        self._last: StepProgress | None = None
        self._notes = set[str]()

    def __call__(self, progress: StepProgress) -> None:
        """Show a progress line, unless the previous one or an earlier note is the same."""
        last, self._last = self._last, progress
        if progress == last or progress.what in self._notes:
            return
        if last is not None and last.step is progress.step is StepName.DONE:
            return
        if not progress.fields:
            self._notes.add(progress.what)
        show_progress(progress)


def show_progress(progress: StepProgress) -> None:
    """Print one line of progress on stderr."""
    more = " ".join(f"{k}={v}" for k, v in progress.fields.items())
    now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
    label = f"{now}  {progress.step.value:<14}  "
    say_rows({label: [f"{progress.what}  {more}".rstrip()]}, len(label))


def show_proposal(proposal: Proposal) -> None:
    """Print a proposal that a person must confirm, on stderr."""
    chosen, seen = proposal.chosen, proposal.survey
    scope = chosen.scope
    risk = seen.risk
    seconds = "unknown" if risk.seconds is None else f"{risk.seconds:.1f} s"
    held = [f"of them {text}"] if (text := held_text(risk.held_back, risk.acknowledged)) else []
    say_rows({
        "flow": [proposal.flow],
        "topics": [first_of(scope.topics, _SHOWN)],
        "groups": [first_of(scope.groups, _SHOWN) or "none", *chosen.notes(), *seen.outside.notes()],
        "clients": [way.in_words() for way in seen.reach] or [_NO_WAY],
        "at risk": [f"{risk.records_in_words}, {seconds} ({risk.basis})", *held],
        "primary": [f"does not answer: {seen.source_error}"] if seen.source_error else [],
        "warning": [] if proposal.flow_back else [no_flow_back(seen.source.alias, seen.target.alias)],
    })  # fmt: skip


def no_flow_back(source: str, target: str) -> str:
    """Return the warning that a failover from source to target has no way back yet."""
    return (
        f"no flow back is configured: {target} stays unprotected until you add"
        f' [[flows]] source = "{target}", target = "{source}" and restart drkit replicate'
    )


def notes_of(proposal: Proposal) -> list[str]:
    """The parts of a proposal besides the topics and groups that move."""
    seen = proposal.survey
    return [*proposal.chosen.notes(), *seen.outside.notes(), *(way.in_words() for way in seen.reach)]


def verdict_of(found: Rehearsal) -> str:
    """A dry run in one line: whether it would begin, what it could lose, and who moves with it."""
    risk = found.survey.risk
    if found.refusals:
        gates = first_of(gate for gate, _ in found.refusals)
        return f"would be refused: {gates}"
    seconds = "" if risk.seconds is None else f", at most {risk.seconds:,.1f} s"
    scope = found.chosen.scope
    moves = f"{counted(len(scope.topics), 'topic')} and {counted(len(scope.groups), 'group')} move"
    others = f", {len(found.chosen.others):,} of them not asked for" if found.chosen.others else ""
    return f"would begin: at risk {risk.records_in_words}{seconds}; {moves}{others}"


def rows_of(lines: Iterable[Planned]) -> list[dict[str, str]]:
    """The lines of a dry run as rows."""
    return [
        {"step": x.step.value, "what": x.effect.what, "where": x.effect.where, "why": x.effect.why}
        for x in lines
    ]


def shown(report: Mapping[str, Any], *, verbose: bool = False) -> list[dict[str, Any] | str]:
    """The report for a person: done, lost, fence, what did not move, and numbered next commands.

    :param verbose: also the notes and the duration of each step; ``--json`` has all of it
    """
    is_return = report.get("kind") == RETURN.name
    out = shown_return(report) if is_return else _outcome(report)
    if verbose:
        out |= _details(report) if not is_return else steps_of(report)
    return [out, *(f"{number}. {to_type(line)}" for number, line in enumerate(report["next"], start=1))]


def _outcome(report: Mapping[str, Any]) -> dict[str, Any]:
    loss, fence = report["loss"] or {}, report["fence"] or {}
    out = {"failover": _done(report)}
    if loss:
        out["lost"] = loss["statement"]
    if fence:
        out["fence"] = "proven" if fence.get("proven") else f"pending: {fence.get('debt')}"
    if remaining := _not_moved(report):
        out["not moved"] = remaining
    if why := held_in_words(report):
        out["held"] = why
    return out


def _done(report: Mapping[str, Any]) -> str:
    topics, groups = report["topics"], report["groups"]["moved"]
    moved = f"{counted(len(topics), 'topic')}, {counted(len(groups), 'group')}"
    return f"{report['state']}: {report['flow']}, {moved}, run {report['run']}, term {report['term']}"


def _not_moved(report: Mapping[str, Any]) -> str:
    """Groups that stay, or have no active member on the new primary yet."""
    groups = report["groups"]
    outside = report.get("outside") or {}
    parts = []
    if groups["kept"]:
        parts.append(f"left where they are: {first_of(groups['kept'], _SHOWN)}")
    if others := outside.get("groups"):
        parts.append(f"outside: {first_of(others, _SHOWN)}")
    if topics := outside.get("not_copied"):
        parts.append(f"no copy: {first_of(topics, _SHOWN)}")
    at_work = groups["at_work"]
    if waiting := sum(why != "works" for why in at_work.values()):
        active = len(at_work) - waiting
        target = report["flow"].partition("->")[2]
        parts.append(f"{active} of {counted(len(at_work), 'moved group')} active on {target} yet")
    return "; ".join(parts)


def _details(report: Mapping[str, Any]) -> dict[str, Any]:
    groups = report["groups"]
    names = (a if a == b else f"{a} → {b}" for a, b in report["topics"].items())
    out: dict[str, Any] = {
        "topics": first_of(names, _SHOWN),
        "groups moved": first_of(groups["moved"], _SHOWN) or "none",
    }
    if report["moved_before"]:
        out["already moved"] = first_of(report["moved_before"], _SHOWN)
    if waiting := [f"{g}: {why}" for g, why in groups["at_work"].items() if why != "works"]:
        out["no active members yet"] = first_of(waiting, _SHOWN)
    return out | steps_of(report)
