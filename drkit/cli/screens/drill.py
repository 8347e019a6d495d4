"""Display of drills: their steps, a verdict with what was examined and not proven, and their history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from drkit.cli.layout import indented
from drkit.cli.screens.status import DrillsView, ago
from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.config.tables.drills import DrillSettings
from drkit.counted import counted, first_of, utc
from drkit.drill.entry import MISSED, DrillEntry, DrillState
from drkit.drill.monitor import DrillMonitor
from drkit.drill.report import DrillReport, StepReport
from drkit.exercise.verdict import PASS
from drkit.next_command import typed
from drkit.status.model import FlowStatus

_WIDTH: Final = 80
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
    rows: dict[str, list[str]] = {}
    files = [("report", str(path)), *([("page", str(html))] if html is not None else [])]
    for title, line in (*_results(report), *_examined(report), *files):
        rows.setdefault(title, []).append(line)
    first = f"{report.verdict.upper()}  {report.plan.name}  {report.kind} of {report.scope.flow}"
    return [first, *indented(rows, _WIDTH)]


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
    is_span = entry.verdict == MISSED and entry.due_ms not in {None, entry.began_ms}
    return utc(entry.began_ms) + (f" to {utc(entry.due_ms or 0)}" if is_span else "")


def _results(report: DrillReport) -> Iterator[tuple[str, str]]:
    """Yield rows with the scope, the reasons, and the results against the objectives."""
    scope, limits, loss = report.scope, report.plan.objectives, report.rpo
    counts = {"topic": scope.topics, "partition": scope.partitions, "group": scope.groups}
    yield "scope", ", ".join(counted(n, what) for what, n in counts.items() if n or what != "partition")
    yield from (("reasons", reason) for reason in report.reasons[:_REASONS])
    if (more := len(report.reasons) - _REASONS) > 0:
        yield "reasons", f"and {more:,} more in the report"
    longest = report.longest_outage
    if longest is not None or limits.rto_seconds is not None:
        outage = "not measured" if longest is None else f"longest outage {longest:.1f} s"
        yield "RTO", f"{outage}, {_against(longest, limits.rto_seconds)}"
    yield from (("RTO", f"{o.name}, {o.operation}: {o.seconds:.1f} s") for o in report.rto)
    if loss is not None:
        records = "" if loss.records is None else f", {counted(loss.records, 'record')}"
        lost = "unknown" if loss.seconds is None else f"{loss.seconds:.1f} s{records} ({loss.basis})"
        yield "RPO", f"loss {lost}, {_against(loss.seconds, limits.rpo_seconds)}"


def _against(result: float | None, limit: float | None) -> str:
    if limit is None:
        return "no limit is set"
    return f"limit {limit:g} s" + ("" if result is None else ": met" if result <= limit else ": NOT MET")


def _examined(report: DrillReport) -> Iterator[tuple[str, str]]:
    """Yield rows with what was checked, the defects that the judge finds, what is left, and not proven."""
    worked = [check for check in report.checks if check.examined or check.failed]
    for check in worked:
        open_points = f", {check.undecided:,} undecided" if check.undecided else ""
        yield "examined", f"{check.name}: {check.examined:,} examined, {check.failed:,} failed{open_points}"
    if idle := len(report.checks) - len(worked):
        yield "examined", f"{counted(idle, 'check')} had nothing to examine"
    elif not worked:
        yield "examined", "nothing"
    tried = {name: is_found for name, is_found in report.controls.items() if is_found is not None}
    if tried:
        yield "controls", f"{sum(tried.values())} of {counted(len(tried), 'defect')} found"
    if missed := [name for name, is_found in tried.items() if not is_found]:
        yield "controls", f"not found: {', '.join(missed)}"
    yield from (("cleanup", line) for line in _cleanup(report))
    by_use: dict[str, list[str]] = {}
    for step in report.not_proven:
        by_use.setdefault(step.exercised, []).append(step.step)
    yield from (("not proven", f"{use}: {first_of(s, len(s))}") for use, s in by_use.items())


def _cleanup(report: DrillReport) -> Iterator[str]:
    found, steps = report.cleanup, {step.name for step in report.steps}
    if found is None:
        if "CREATE" in steps and "CLEAN" not in steps:
            yield "owed: drkit drill cleanup"
        return
    if not (found.left or found.unknown):
        yield "nothing of the drill is left"
    rows = {"left": found.left, "unknown": found.unknown, "changed by others": found.changed_by_others}
    yield from (f"{title}: {first_of(names, _NAMES)}" for title, names in rows.items() if names)


class DrillStates:
    """The drills of the flows that `drkit status` shows."""

    def __init__(self, settings: Settings, flows: Iterable[FlowSettings]) -> None:
        self._monitor = DrillMonitor(settings, flows)
        self._has_looked = False

    def view(self, statuses: Sequence[FlowStatus]) -> DrillsView:
        """Return the drills; the first time their histories are read, if the targets answer."""
        if self._has_looked:
            self._monitor.begin_look()
        else:
            self._monitor.look([status.flow for status in statuses if status.target_answers])
            self._has_looked = True
        states, unread = self._monitor.states(), self._monitor.never_read()
        items = [*(state_text(state, wall_ms()) for state in states), *(f"{name} unknown" for name in unread)]
        rows = [*map(_row, states), *({"drill": name, "unread": reason} for name, reason in unread.items())]
        return DrillsView(f"{'; '.join(items)} (drkit drill history)" if items else "", rows)


def state_text(state: DrillState, now_ms: int) -> str:
    """Return the state of a drill in words."""
    return f"{state.name} {', '.join(_words(state, now_ms))}"


def _words(state: DrillState, now_ms: int) -> Iterator[str]:
    is_well = not state.is_overdue and state.last_verdict in {"", PASS}
    if state.is_overdue:
        yield "overdue"
    if state.last_verdict not in {"", PASS}:
        yield f"last verdict {state.last_verdict}"
    if state.last_pass_ms is not None:
        passed = ago(max(0, now_ms - state.last_pass_ms) / 1000)
        yield f"passed {passed}" if is_well else f"last passed {passed}"
    elif state.is_configured:
        yield "not run yet" if is_well else "never passed"
    if state.owing:
        yield f"cleanup owed: {typed('drkit', 'drill', 'cleanup', '--flow', state.flow)}"


def _row(state: DrillState) -> dict[str, Any]:
    return {
        "drill": state.name,
        "kind": state.kind,
        "flow": state.flow,
        "last_pass_ms": state.last_pass_ms,
        "last_verdict": state.last_verdict or None,
        "last_ms": state.last_ms,
        "overdue": state.is_overdue,
        "cleanup_owed": list(state.owing),
    }
