"""Display of ``drkit reprotect --plan``: what a return copies, keeps and gives up, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from drkit.cli.render import emit
from drkit.cli.screens.held_return import commands_of, lines_of, under_way
from drkit.cli.session import session, to_type
from drkit.config import FlowSettings
from drkit.counted import counted, first_of, size_text, utc
from drkit.failover.core.choices import Disposition, Method
from drkit.failover.core.machine import RETURN
from drkit.failover.core.request import RunRequest
from drkit.failover.core.said import NOTHING_SAID, UNTIL_EXPORT, begin_words, decision_words
from drkit.failover.journal.entries import RunLog
from drkit.failover.new_primary.costs import CopyRate, MethodCost
from drkit.failover.returning.outlook import Missing, Outlook, TopicOutlook
from drkit.next_command import typed
from drkit.status.pair.model import DeltaBound

_SHOWN: Final = 10
_UNKNOWN: Final = "unknown"
_MINUTE: Final = 60
_HOUR: Final = 3600


def show_outlook(
    outlook: Outlook, flow: FlowSettings, request: RunRequest = NOTHING_SAID, topics: Sequence[str] = (),
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
        next_ = commands_of(run, flow, request, [*missing_of(outlook.missing)])
    next_ = [to_type(line) for line in next_]
    asked = [to_type(line) for line in asked_of(outlook, "begin" if run is None else "go on")]
    if session().as_json:
        rate = outlook.rate.to_json() if found else None
        body = {"flow": flow.name, "topics": [t.to_json() for t in found], "rate": rate}
        emit(body | {"run": None if run is None else under_way(run), "asked": asked, "next": next_})
        return
    if found:
        emit([row_of(t) for t in found])
    began = () if run is None else map(to_type, lines_of(run))
    ends = (*whole_until(found), rate_note(outlook.rate)) if found else ()
    notes = (*began, *map(to_type, notes_of(found, flow)), *asked, *ends)
    for line in (*notes, *(f"{n}. {line}" for n, line in enumerate(next_, start=1))):
        emit(line)


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
        yield f"how clients are kept off is to be said: {missing.clients_cut}"
    if missing.export_to:
        yield "where the records that only the old primary has are exported is to be said"
    if missing.undecided:
        yield f"to be decided: {missing.undecided}"
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
    outlook: Outlook, flow: FlowSettings, request: RunRequest = NOTHING_SAID, topics: Sequence[str] = ()
) -> list[str]:
    """What to type: one way through, with what was said; the choices that are missing are named.

    :param request: what was said of the return
    :param topics: those that were named
    """
    command = f"{RETURN.command} --flow '{flow.name}'"
    found, missing = outlook.topics, outlook.missing
    of_topics = [typed("--topic", topic) for topic in topics]
    keep = [
        f"to keep the delta whole until {flow.source} has it: {' '.join((command, *of_topics, '--hold'))}"
    ] * any(t.bound is not None and t.bound.until_ms is not None for t in found)
    before, decided = begin_words(request), decision_words(request)
    if any(t.unknown for t in found):
        line = " ".join((command, *of_topics, *before, *decided, "--plan"))
        return [f"when {flow.source} answers, and can be read: {line}", *keep]
    before += missing_places(missing)
    begin = " ".join((command, *of_topics, *before))
    lines = [" ".join((begin, *decided, *_missing_words(missing)))]
    if missing.dispositions and any(t.only_old for t in found):
        lines.append(f"to keep and export them now, and decide later: {begin} --until-export")
    return [*lines, *keep]


def missing_of(missing: Missing) -> Iterator[str]:
    """All options that are missing, with what can be chosen."""
    yield from missing_places(missing)
    yield from _missing_words(missing)


def missing_places(missing: Missing) -> Iterator[str]:
    """The options that a return needs before anything is decided."""
    if missing.clients_cut:
        yield '--clients-cut "HOW"'
    if missing.export_to:
        yield "--export-to PLACE"


def _missing_words(missing: Missing) -> Iterator[str]:
    """The choices that are missing, with what can be chosen."""
    if len(missing.dispositions) > _SHOWN:
        yield f"--disposition '*={'|'.join(Disposition)}'"
    else:
        yield from (f"--disposition {t}={'|'.join(Disposition)}" for t in missing.dispositions)
    yield from (typed("--give-up-history", t) for t in missing.histories)
    if missing.reason:
        yield '--reason "WHY"'


def _sent(offsets: int, cost: MethodCost | None) -> str:
    """A number of offsets, with the bytes and the seconds that they take."""
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
