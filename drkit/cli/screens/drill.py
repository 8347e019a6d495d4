"""Display of drills: their steps, a verdict with what was examined and not proven, and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from drkit.config.tables.drills import DrillSettings
from drkit.counted import counted, first_of, utc
from drkit.drill.entry import MISSED, DrillEntry
from drkit.drill.report import DrillReport, StepReport, longest_outage, outage_rows

_LABEL: Final = 11
_WIDTH: Final = 80 - 2 - _LABEL
"""Columns beside a label."""
_REASONS: Final = 10
_NAMES: Final = 5
_LEFT_OUT: Final = {"evidence", "groups"}


def step_line(step: StepReport) -> str:
    """Return a step of a drill with its seconds."""
    return f"{step.seconds:6.1f} s  {step.name.upper():<9}  {step.outcome}".rstrip()


def due_line(drill: DrillSettings, due: datetime) -> str:
    """Return when a drill is due next."""
    return f"{drill.name}: {drill.kind}, next {due:%Y-%m-%d %H:%M} UTC"


def report_lines(report: DrillReport, path: Path, html: Path | None = None) -> list[str]:
    """Return the verdict of a drill for a person."""
    lines = [f"{report.verdict.upper()}  {report.plan.name}  {report.kind} of {report.scope.flow}"]
    more = len(report.reasons) - _REASONS
    rows = {
        "scope": [_scope_line(report)],
        "reasons": [*report.reasons[:_REASONS], *([f"and {more:,} more in the report"] if more > 0 else [])],
        "RTO": _outage_lines(report),
        "RPO": _loss_lines(report),
        "examined": _check_lines(report),
        "controls": _control_lines(report),
        "cleanup": _cleanup_lines(report),
        "not proven": _unproven_lines(report),
    }
    for label, texts in rows.items():
        lines += _labelled(label, [line for text in texts for line in _wrapped(text)])
    lines += _labelled("report", [str(path)])
    return lines + _labelled("page", [str(html)] if html is not None else [])


def report_data(report: DrillReport, path: Path) -> dict[str, Any]:
    """Return a report as data, without its evidence, and where it is."""
    data = report.model_dump(mode="json", by_alias=True, exclude=_LEFT_OUT)
    return data | {"report": str(path)}


def entry_row(entry: DrillEntry, *, as_json: bool) -> dict[str, Any]:
    """Return a drill of the history as a row."""
    if as_json:
        return entry.model_dump(mode="json", exclude={"limit_seconds", "holder", "made", "written_ms"})
    return {
        "id": entry.id or "–",
        "name": entry.name,
        "kind": entry.kind,
        "verdict": entry.verdict,
        "when": _when(entry),
        "seconds": None if entry.seconds is None else round(entry.seconds, 1),
    }


def _when(entry: DrillEntry) -> str:
    """Return when a drill began, or the first and the last due time that were missed."""
    is_span = entry.verdict == MISSED and entry.due_ms not in {None, entry.began_ms}
    return utc(entry.began_ms) + (f" to {utc(entry.due_ms or 0)}" if is_span else "")


def _scope_line(report: DrillReport) -> str:
    scope = report.scope
    parts = [counted(scope.topics, "topic")]
    if scope.partitions:
        parts.append(counted(scope.partitions, "partition"))
    return ", ".join([*parts, counted(scope.groups, "group")])


def _outage_lines(report: DrillReport) -> list[str]:
    """Return the longest outage against its objective, then the outage of each client."""
    longest, limit = longest_outage(report), report.plan.objectives.rto_seconds
    if longest is None:
        return [] if limit is None else [f"not measured, {_against(None, limit)}"]
    clients = [f"{row.client}, {row.operation}: {row.seconds:.1f} s" for row in outage_rows(report)]
    return [f"longest outage {longest:.1f} s, {_against(longest, limit)}", *clients]


def _loss_lines(report: DrillReport) -> list[str]:
    """Return the loss of records against its objective."""
    loss, limit = report.rpo, report.plan.objectives.rpo_seconds
    if loss is None or loss.seconds is None:
        return [] if loss is None else [f"loss unknown, {_against(None, limit)}"]
    records = "" if loss.records is None else f", {counted(loss.records, 'record')}"
    return [f"loss {loss.seconds:.1f} s{records} ({loss.basis}), {_against(loss.seconds, limit)}"]


def _against(result: float | None, limit: float | None) -> str:
    if limit is None:
        return "no limit is set"
    return f"limit {limit:g} s" + ("" if result is None else ": met" if result <= limit else ": NOT MET")


def _check_lines(report: DrillReport) -> list[str]:
    lines, idle = [], 0
    for check in report.checks:
        if not (check.examined or check.failed):
            idle += 1
            continue
        open_points = f", {check.undecided:,} undecided" if check.undecided else ""
        lines.append(f"{check.name}: {check.examined:,} examined, {check.failed:,} failed{open_points}")
    return lines + ([f"{counted(idle, 'check')} had nothing to examine"] if idle else []) or ["nothing"]


def _control_lines(report: DrillReport) -> list[str]:
    """Return how many defects the judge finds that were put into the evidence, and which it misses."""
    tried = {name: is_found for name, is_found in report.controls.items() if is_found is not None}
    missed = [name for name, is_found in tried.items() if not is_found]
    found = f"{len(tried) - len(missed)} of {counted(len(tried), 'defect')} found"
    return [found, *([f"not found: {', '.join(missed)}"] if missed else [])] if tried else []


def _cleanup_lines(report: DrillReport) -> list[str]:
    """Return what a drill left on the clusters."""
    found, steps = report.cleanup, {step.name for step in report.steps}
    if found is None:
        return ["owed: drkit drill cleanup"] if "CREATE" in steps and "CLEAN" not in steps else []
    rows = {"left": found.left, "unknown": found.unknown, "changed by others": found.changed_by_others}
    lines = [f"{title}: {first_of(names, _NAMES)}" for title, names in rows.items() if names]
    return lines if found.left or found.unknown else ["nothing of the drill is left", *lines]


def _unproven_lines(report: DrillReport) -> list[str]:
    """Return the steps of a failover that were not proven, by how they were exercised."""
    by_use: dict[str, list[str]] = {}
    for step in report.not_proven:
        by_use.setdefault(step.exercised, []).append(step.step)
    return [f"{use}: {first_of(steps, len(steps))}" for use, steps in by_use.items()]


def _wrapped(text: str) -> list[str]:
    """Return a text as lines that fit a terminal; words, such as the names of topics, stay whole."""
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _labelled(label: str, lines: Sequence[str]) -> list[str]:
    return [f"  {label if not number else '':<{_LABEL}}{line}" for number, line in enumerate(lines)]
