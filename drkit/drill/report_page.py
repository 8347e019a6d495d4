"""Render the report of a drill as one HTML page without scripts or external assets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from jinja2 import Environment, StrictUndefined

from drkit.counted import counted, utc
from drkit.drill.evidence import BUBBLE, BubbleEvidence
from drkit.drill.report import DrillReport, GroupReport, OutageReport
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: names of groups are other people's text."""
_TEMPLATE: Final = Path(__file__).with_name("report_page.html.jinja")
_FOUND: Final = {True: "found", False: "not found", None: "no place for it"}
_SHOWN: Final = 500
"""Reasons and groups that the page lists; the JSON report has all."""
_BESIDE: Final = 0.2
"""The margin of the strip of outages."""


def render_page(report: DrillReport) -> str:
    """Return the HTML page of a report."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"utc": utc}
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    groups = sorted(report.groups, key=lambda g: (not g.reason, g.group))[:_SHOWN]
    bubble = report.evidence.bubble or BubbleEvidence()
    seconds = {step: f"{value:.1f}" for step, value in (bubble.steps or {}).items()}
    ends = [entry.at_ms for entry in report.timeline]
    return template.render(
        report=report,
        policy=POLICY,
        sentence=_sentence(report),
        reasons=report.reasons[:_SHOWN],
        took=f"{(ends[-1] - ends[0]) / 1000:.0f} s" if ends else "",
        results=_results(report),
        window=[f"{second:.1f} s" for second in outage_window(report)],
        bars=outage_bars(report),
        steps=[(s.name.upper(), f"{s.seconds:.1f}", s.outcome) for s in report.steps],
        checks=[
            (c.name, f"{c.examined:,}", f"{c.failed:,}", f"{c.undecided:,}")
            for c in report.checks
            if c.examined or c.failed
        ],
        idle=[c.name for c in report.checks if not (c.examined or c.failed)],
        groups=[(g.group, _answers(g), g.repeats, g.reason) for g in groups],
        unproven=[(u.step, u.exercised, seconds.get(u.step, "–"), u.proven_by) for u in report.not_proven],
        controls=[(name, _FOUND[is_found]) for name, is_found in report.controls.items()],
        cleanup=_cleanup(report),
    )


def outage_window(report: DrillReport) -> tuple[float, float]:
    """Return the first and the last second that the strip shows: all outages, and a little beside them."""
    began = min((outage.began_seconds for outage in report.rto), default=0.0)
    ended = max((outage.began_seconds + outage.seconds for outage in report.rto), default=0.0)
    beside = (ended - began) * _BESIDE or 1.0
    return max(began - beside, 0.0), ended + beside


class OutageBar(NamedTuple):
    """The bar of an outage, in percent of the strip's width."""

    outage: OutageReport
    left: float
    width: float
    is_over: bool
    """Longer than the objective allows."""


def outage_bars(report: DrillReport) -> list[OutageBar]:
    """Return the bars of all outages."""
    limit, (first, last) = report.plan.objectives.rto_seconds, outage_window(report)
    scale = 100 / (last - first)
    bars = []
    for outage in report.rto:
        left, width = round((outage.began_seconds - first) * scale, 2), round(outage.seconds * scale, 2)
        bars.append(OutageBar(outage, left, width, is_over=limit is not None and outage.seconds > limit))
    return bars


def _cleanup(report: DrillReport) -> list[tuple[str, str]]:
    """Return what the drill left, by its cause; nothing if nothing was compared."""
    found = report.cleanup
    if found is None:
        return []
    sides = (report.evidence.bubble or BubbleEvidence()).inventory or {}
    kept = [f"{side}: {item}" for side, compared in sides.items() for item in compared.residue]
    rows = {
        "Left, must be empty": found.left,
        "Unknown, must be empty": found.unknown,
        "Changed by others meanwhile": found.changed_by_others,
        "Kept for the next drill": kept,
    }
    return [(title, "\n".join(names) or "nothing") for title, names in rows.items()]


def _answers(group: GroupReport) -> str:
    return ", ".join(f"{number:,} {answer}" for answer, number in group.answers.items())


def _sentence(report: DrillReport) -> str:
    scope = report.scope
    if report.verdict not in {PASS, FAIL, INCONCLUSIVE}:
        return f"The drill of {scope.flow} did not run to its end."
    what = f"{counted(scope.groups, 'group')} and {counted(scope.topics, 'topic')} of {scope.flow}"
    if report.kind == BUBBLE:
        what = f"a failover that was rehearsed beside {scope.flow}"
    if report.verdict == PASS and report.kind == BUBBLE:
        loss = report.rpo
        return (
            f"All objectives are met by {what}: clients were out for {report.longest_outage or 0:.1f} s at"
            f" most, and it lost {counted(loss.records, 'record') if loss and loss.records else 'no record'}."
        )
    if report.verdict == PASS:
        return f"All objectives are met for {what}."
    noun = "problem" if report.verdict == FAIL else "open point"
    return f"{counted(len(report.reasons), noun)} in {what}."


def _results(report: DrillReport) -> list[tuple[str, str, str, str]]:
    """Return the objectives with their limits, the results, and whether they are met."""
    limits, answers = report.plan.objectives, Counter[str]()
    for group in report.groups:
        answers.update(group.answers)
    loss = report.rpo
    seconds = None if loss is None else loss.seconds
    known = "" if loss is None or loss.records is None else f", {counted(loss.records, 'record')}"
    basis = "" if loss is None else f" ({loss.basis})"
    return [
        _objective("RTO: longest outage of a client", limits.rto_seconds, report.longest_outage),
        _objective("RPO: lost by a failover", limits.rpo_seconds, seconds, f"{known}{basis}"),
        *((f"Positions: {answer}", "–", f"{number:,}", "–") for answer, number in answers.most_common()),
    ]


def _objective(
    name: str, limit: float | None, result: float | None, detail: str = ""
) -> tuple[str, str, str, str]:
    return (
        name,
        "no limit" if limit is None else f"{limit:,.1f}\N{NO-BREAK SPACE}s",
        "not measured" if result is None else f"{result:,.1f}\N{NO-BREAK SPACE}s{detail}",
        "–" if limit is None or result is None else "yes" if result <= limit else "no",
    )
