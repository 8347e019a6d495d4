"""Display of ``drkit reprotect --plan``: what a return copies, keeps and gives up, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from drkit.cli.render import emit
from drkit.cli.session import to_type
from drkit.config import FlowSettings
from drkit.counted import counted, first_of, size_text, utc
from drkit.failover.core.commands import NOTHING, UNTIL_EXPORT, open_choices, return_command
from drkit.failover.core.request import Method, RunRequest
from drkit.failover.new_primary.costs import CopyRate, MethodCost
from drkit.failover.returning.return_plan import Missing, Outlook, TopicOutlook
from drkit.journal.entries import RunLog
from drkit.journal.machine import RETURN, RunState
from drkit.next_command import HOW, PLACE, WHY
from drkit.status.pair.model import DeltaBound

_DEAD: Final = "it continues by itself while its process lives"


def under_way(run: RunLog) -> dict[str, Any]:
    """The run, its step, and why it is held, as plain data; not held: without a reason."""
    error = run.held.get("error", {}) if run.is_left else {}
    step = (run.held.get("step") if error else None) or run.last_step
    return {
        "run": run.run_id,
        "state": run.state.value,
        "step": str(step or ""),
        "held": error.get("error", ""),
        "evidence": error.get("evidence", ""),
        "hint": error.get("hint", ""),
    }


def lines_of(run: RunLog) -> Iterator[str]:
    """Yield the lines about a run that precede its commands."""
    facts = under_way(run)
    state = f"the return {facts['run']} is under way, {facts['state']} at {facts['step'] or 'its beginning'}"
    evidence = f" ({facts['evidence']})" if facts["evidence"] else ""
    yield f"{state}: {facts['held']}{evidence}" if facts["held"] else f"{state}: {_DEAD}"
    if facts["hint"]:
        yield f"what its refusal names: {facts['hint']}"


def commands_of(run: RunLog, flow: FlowSettings, added: RunRequest) -> list[str]:
    """Return the commands that continue the run, and roll it back.

    :param flow: the flow that was failed over
    :param added: options that the run needs in addition
    """
    command = RETURN.typed("--flow", flow.name)
    lines = []
    if run.state is not RunState.ABORTING:
        lines.append(str(command.plus("--resume", *added.options())))
    if run.abortable:
        lines.append(f"to roll it back: {command.plus('--abort')}")
    return lines


_SHOWN: Final = 10
_UNKNOWN: Final = "unknown"
_MINUTE: Final = 60
_HOUR: Final = 3600


def show_outlook(
    outlook: Outlook, flow: FlowSettings, request: RunRequest = NOTHING, topics: Sequence[str] = (),
    run: RunLog | None = None,
) -> None:  # fmt: skip
    """Print the plan of a return.

    :param flow: the flow that was failed over
    :param request: what was said of the return
    :param topics: those that were named
    :param run: the return that is under way: none begins beside it
    """
    found = outlook.topics
    if run is None:
        next_ = [*when_cleared(outlook, next_of(outlook, flow, request, topics))]
    else:
        next_ = commands_of(run, flow, request.plus(missing_of(outlook.missing)))
    next_ = [to_type(line) for line in next_]
    asked = [to_type(line) for line in asked_of(outlook, "begin" if run is None else "go on")]
    rate = outlook.rate.to_json() if found else None
    body = {"flow": flow.name, "topics": [t.to_json() for t in found], "rate": rate}
    began = () if run is None else map(to_type, lines_of(run))
    ends = (*whole_until(found), rate_note(outlook.rate)) if found else ()
    notes = (*began, *map(to_type, notes_of(found, flow)), *asked, *ends)
    steps = (f"{n}. {line}" for n, line in enumerate(next_, start=1))
    emit(
        body | {"run": None if run is None else under_way(run), "asked": asked, "next": next_},
        shown=[[row_of(t) for t in found] or None, *notes, *steps],
    )


def row_of(t: TopicOutlook) -> dict[str, Any]:
    """A topic of the plan, as a row."""
    return {
        "topic": t.topic,
        "since": utc(t.promoted_ms) + (" (planned)" if t.planned else ""),
        "partitions": _kinds(t.found, t.partitions),
        "only on the old": _records(t),
        "delta": _sent(t.delta, t.costs.get(Method.DELTA)),
        "whole": _sent(t.whole, t.costs.get(Method.REBUILD)),
        "method": ", ".join(t.methods) or _UNKNOWN,
        "copies": _UNKNOWN if t.copies is None else _sent(t.copies, t.chosen),
        "delta whole until": _until(t.bound),
    }


def notes_of(found: Iterable[TopicOutlook], flow: FlowSettings) -> Iterator[str]:
    """What the rows do not say."""
    for t in found:
        if t.removed:
            yield f"{t.topic}: retention on {flow.source} has removed up to {t.removed:,} more already"
        yield from (f"{t.topic}: {line}" for line in (t.gone, *t.left) if line)
        if t.emptied and t.gives_up:
            some = counted(t.emptied, "partition", "is")
            yield f"{t.topic}: {some} emptied; {flow.source} gives up {t.gives_up}"
        if t.early_groups:
            yield f"{t.topic}: trim would leave without a position: {first_of(t.early_groups, _SHOWN)}"
        if t.appended:
            some = counted(t.appended, "record")
            yield f"{t.topic}: {some} of {flow.source} stay there, and are appended to {flow.target}"
        if t.late_groups:
            groups = first_of(t.late_groups, _SHOWN)
            yield f"{t.topic}: keep holds the way home until these have read what is appended: {groups}"
    if why := next((t.unknown for t in found if t.unknown), ""):
        yield f"unknown until contact: {why}"


def asked_of(outlook: Outlook, verb: str = "begin") -> Iterator[str]:
    """With what the return would be refused as it was asked for.

    :param verb: what it would not do
    """
    missing = outlook.missing
    if missing.clients_cut:
        yield f"state how clients are kept away (--clients-cut): {missing.clients_cut}"
    if missing.export_to:
        yield "name a place (--export-to): records that only the old primary has are exported first"
    if missing.undecided:
        yield f"decide (--disposition): {missing.undecided}"
    yield from (f"would not {verb}: {why}" for why in outlook.refused)


def when_cleared(outlook: Outlook, lines: Iterable[str]) -> Iterator[str]:
    """The commands to type; those that would be refused now say so."""
    for line in lines:
        begins_now = line.endswith(" --hold") or (outlook.saves and line.endswith(f" {UNTIL_EXPORT}"))
        is_refused = outlook.refused and not begins_now
        yield f"once nothing above refuses it: {line}" if is_refused else line


def whole_until(found: Iterable[TopicOutlook]) -> Iterator[str]:
    """The topic whose delta ends first, and what keeps it longer."""
    limited = [(t.bound.until_ms, t) for t in found if t.bound is not None and t.bound.until_ms is not None]
    if not limited:
        return
    until_ms, first = min(limited, key=lambda x: x[0])
    assert first.bound is not None  # noqa: S101  it has a bound
    said = "may not be whole since" if first.bound.used >= 1 else "is whole until"
    yield f"the delta {said} {utc(until_ms)} ({first.topic}: {first.bound.by})"


def rate_note(rate: CopyRate) -> str:
    """Where the seconds come from."""
    speed = f"{size_text(rate.bytes_per_second)}/s"
    if rate.is_estimate:
        return f"seconds are an estimate, by {speed}: no epoch of this pair was measured while it was behind"
    when = "" if rate.measured_ms is None else f" at {utc(rate.measured_ms)}"
    return f"seconds by {speed}, which {rate.measured_by} has copied{when}, in its fastest epoch"


def next_of(
    outlook: Outlook, flow: FlowSettings, request: RunRequest = NOTHING, topics: Sequence[str] = ()
) -> list[str]:
    """What to type: one way through, with what was said; the choices that are missing are named.

    :param request: what was said of the return
    :param topics: those that were named
    """
    found, missing = outlook.topics, outlook.missing
    keep = []
    if any(t.bound is not None and t.bound.until_ms is not None for t in found):
        hold = return_command(flow.name, topics).plus("--hold")
        keep = [f"to keep the delta whole until {flow.source} has it: {hold}"]
    if any(t.unknown for t in found):
        plan = return_command(flow.name, topics, request).plus("--plan")
        return [f"when {flow.source} answers, and can be read: {plan}", *keep]
    complete = request.plus(missing_of(missing))
    lines = [str(return_command(flow.name, topics, complete))]
    if missing.dispositions and any(t.only_old for t in found):
        later = return_command(flow.name, topics, complete.without_decisions()).plus(UNTIL_EXPORT)
        lines.append(f"to keep and export them now, and decide later: {later}")
    return [*lines, *keep]


def missing_of(missing: Missing) -> RunRequest:
    """Return the options that are missing, with placeholders for the choices."""
    return RunRequest(
        clients_cut=HOW if missing.clients_cut else "",
        export_to=PLACE if missing.export_to else "",
        dispositions=open_choices(missing.dispositions),
        give_up_history=tuple(missing.histories),
        reason=WHY if missing.reason else "",
    )


def _sent(offsets: int, cost: MethodCost | None) -> str:
    if cost is None or cost.bytes is None or cost.seconds is None:
        return f"{offsets:,}"
    return f"{offsets:,} ({size_text(cost.bytes)}, {_duration(cost.seconds)})"


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes, hours = seconds / _MINUTE, seconds / _HOUR
    return f"{minutes:.0f} min" if hours < 1 else f"{hours:.1f} h"


def _until(bound: DeltaBound | None) -> str:
    if bound is None or bound.unknown:
        return _UNKNOWN
    if bound.until_ms is not None:
        return utc(bound.until_ms) if bound.used < 1 else f"since {utc(bound.until_ms)} perhaps not"
    if bound.size_used is not None:
        return f"by size: {bound.size_used:.0%} used"
    return "held" if bound.held_ms is not None else "not limited"


def _records(t: TopicOutlook) -> str:
    if t.only_old is None:
        return _UNKNOWN
    exported = f", {t.exported:,} in an export alone" if t.exported else ""
    return f"{t.only_old:,} ({t.only_old_bytes or 0:,} B){exported}"


def _kinds(found: Any, partitions: int) -> str:
    kinds = [f"{n} {kind}" for kind, n in sorted(found.items()) if n]
    return ", ".join(kinds) or str(partitions)
