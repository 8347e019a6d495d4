"""Render the report of a drill as one HTML page without scripts or external assets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from jinja2 import Environment, StrictUndefined

from drkit.chaos.verdict import FAIL, PASS
from drkit.counted import counted
from drkit.drill.report.model import DrillReport, GroupReport
from drkit.status.pair.text import utc

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: names of groups are other people's text."""
_TEMPLATE: Final = Path(__file__).with_name("page.html.jinja")
_FOUND: Final = {True: "found", False: "not found", None: "no place for it"}
_SHOWN: Final = 500
"""Reasons and groups that the page lists; the JSON report has all."""


def render_page(report: DrillReport) -> str:
    """Return the HTML page of a report."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"utc": utc}
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    groups = sorted(report.groups, key=lambda g: (not g.reason, g.group))[:_SHOWN]
    return template.render(
        report=report,
        policy=POLICY,
        sentence=_sentence(report),
        reasons=report.reasons[:_SHOWN],
        results=_results(report),
        longest=max((o.began_seconds + o.seconds for o in report.rto), default=1.0),
        steps=[(s.name, f"{s.seconds:.1f}", s.outcome) for s in report.steps],
        checks=[(c.name, c.examined, c.failed, c.undecided) for c in report.checks],
        groups=[(g.group, _answers(g), g.repeats, g.reason) for g in groups],
        unproven=[(u.step, u.exercised, u.proven_by) for u in report.not_proven],
        controls=[(name, _FOUND[is_found]) for name, is_found in report.controls.items()],
    )


def _answers(group: GroupReport) -> str:
    return ", ".join(f"{number:,} {answer}" for answer, number in group.answers.items())


def _sentence(report: DrillReport) -> str:
    scope = report.scope
    what = f"{counted(scope.groups, 'group')} and {counted(scope.topics, 'topic')} of {scope.flow}"
    if report.verdict == PASS:
        return f"All objectives are met for {what}."
    noun = "problem" if report.verdict == FAIL else "open point"
    return f"{counted(len(report.reasons), noun)} in {what}."


def _results(report: DrillReport) -> list[tuple[str, str, str]]:
    """Return the objectives with their limits and the results."""
    limits, answers = report.plan.objectives, Counter[str]()
    outage = max((o.seconds for o in report.rto), default=None)
    loss = None if report.rpo is None else report.rpo.seconds
    for group in report.groups:
        answers.update(group.answers)
    return [
        ("RTO: longest outage", _seconds(limits.rto_seconds), _seconds(outage, "not measured")),
        ("RPO: loss of a failover", _seconds(limits.rpo_seconds), _seconds(loss, "not measured")),
        *((f"Positions: {answer}", "", f"{number:,}") for answer, number in answers.most_common()),
    ]


def _seconds(value: float | None, unknown: str = "no limit") -> str:
    return unknown if value is None else f"{value:,.1f} s"
