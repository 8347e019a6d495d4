"""Display of ``drkit reprotect --plan``: what a return copies, keeps and gives up, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from drkit.cli.render import emit
from drkit.cli.session import session, to_type
from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.failover.core.choices import Disposition
from drkit.failover.core.machine import RETURN
from drkit.failover.returning.outlook import TopicOutlook

_SHOWN: Final = 10
_UNKNOWN: Final = "unknown"


def show_outlook(found: Sequence[TopicOutlook], flow: FlowSettings) -> None:
    """Print the plan of a return.

    :param flow: the flow that was failed over
    """
    next_ = [to_type(line) for line in next_of(found, flow)]
    if session().as_json:
        emit({"flow": flow.name, "topics": [t.to_json() for t in found], "next": next_})
        return
    emit([row_of(t) for t in found])
    for line in (*notes_of(found, flow), *(f"{n}. {line}" for n, line in enumerate(next_, start=1))):
        emit(line)


def row_of(t: TopicOutlook) -> dict[str, Any]:
    """A topic of the plan, as a row."""
    since = datetime.fromtimestamp(t.promoted_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "topic": t.topic,
        "since": since + (" (planned)" if t.planned else ""),
        "partitions": _kinds(t.found, t.partitions),
        "only on the old": _records(t),
        "delta": f"{t.delta:,}",
        "whole": f"{t.whole:,}",
        "method": ", ".join(t.methods) or _UNKNOWN,
        "copies": _UNKNOWN if t.copies is None else f"{t.copies:,}",
    }


def notes_of(found: Iterable[TopicOutlook], flow: FlowSettings) -> Iterator[str]:
    """What the rows do not say."""
    for t in found:
        if t.removed:
            yield f"{t.topic}: retention on {flow.source} has removed up to {t.removed:,} more already"
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


def next_of(found: Sequence[TopicOutlook], flow: FlowSettings) -> list[str]:
    """What to type: one way through; the choices are named."""
    command = f"{RETURN.command} --flow '{flow.name}'"
    if any(t.unknown for t in found):
        return [f"when {flow.source} answers: {command} --plan"]
    tails = [t.topic for t in found if t.only_old]
    words = [f"--disposition {t}={'|'.join(Disposition)}" for t in tails[:_SHOWN]]
    if len(tails) > _SHOWN:
        words = [f"--disposition '*={'|'.join(Disposition)}'"]
    words += ["--export-to PLACE"] if tails else []
    words += ['--reason "WHY"'] if any(t.emptied for t in found) else []
    lines = [" ".join((command, *words))]
    if tails:
        lines.append(f"to keep and export them now, and decide later: {command} --export-to PLACE --hold")
    return lines


def _records(t: TopicOutlook) -> str:
    return _UNKNOWN if t.only_old is None else f"{t.only_old:,} ({t.only_old_bytes or 0:,} B)"


def _kinds(found: Any, partitions: int) -> str:
    kinds = [f"{n} {kind}" for kind, n in sorted(found.items()) if n]
    return ", ".join(kinds) or str(partitions)
