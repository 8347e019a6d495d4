"""Display of drills: their steps, a verdict with what was examined and not proven, and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from drkit.config.tables.drills import DrillSettings
from drkit.counted import counted, first_of
from drkit.drill.entry import DrillEntry
from drkit.drill.report.model import CheckReport, DrillReport, StepReport
from drkit.status.pair.text import utc

_LABEL: Final = 11
_REASONS: Final = 10
_LEFT_OUT: Final = {"evidence", "groups"}


def step_line(step: StepReport) -> str:
    """Return a step of a drill with its seconds."""
    return f"{step.seconds:6.1f} s  {step.name:<8} {step.outcome}".rstrip()


def due_line(drill: DrillSettings, due: datetime) -> str:
    """Return when a drill is due next."""
    return f"{drill.name}: {drill.kind}, next {due:%Y-%m-%d %H:%M} UTC"


def report_lines(report: DrillReport, path: Path, html: Path | None = None) -> list[str]:
    """Return the verdict of a drill for a person."""
    scope = report.scope
    lines = [f"{report.verdict.upper()}  {report.plan.name}  {report.kind} of {scope.flow}"]
    examined = [_check_line(check) for check in report.checks] or ["nothing"]
    lines += _labelled("scope", [_scope_line(report)])
    lines += _labelled("examined", examined)
    more = len(report.reasons) - _REASONS
    reasons = [*report.reasons[:_REASONS], *([f"and {more:,} more in the report"] if more > 0 else [])]
    lines += _labelled("reasons", reasons)
    missed = [name for name, is_found in report.controls.items() if is_found is False]
    lines += _labelled("controls", [f"not found: {', '.join(missed)}"] if missed else [])
    lines += _labelled("not proven", _unproven_lines(report))
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
        "when": utc(entry.began_ms),
        "seconds": None if entry.seconds is None else round(entry.seconds, 1),
    }


def _scope_line(report: DrillReport) -> str:
    scope = report.scope
    parts = [counted(scope.topics, "topic")]
    if scope.partitions:
        parts.append(counted(scope.partitions, "partition"))
    return ", ".join([*parts, counted(scope.groups, "group")])


def _check_line(check: CheckReport) -> str:
    open_points = f", {check.undecided:,} undecided" if check.undecided else ""
    return f"{check.name}: {check.examined:,} examined, {check.failed:,} failed{open_points}"


def _unproven_lines(report: DrillReport) -> list[str]:
    """Return the steps of a failover that were not proven, by how they were exercised."""
    by_use: dict[str, list[str]] = {}
    for step in report.not_proven:
        by_use.setdefault(step.exercised, []).append(step.step)
    return [f"{use}: {first_of(steps, len(steps))}" for use, steps in by_use.items()]


def _labelled(label: str, lines: Sequence[str]) -> list[str]:
    return [f"  {label if not number else '':<{_LABEL}}{line}" for number, line in enumerate(lines)]
