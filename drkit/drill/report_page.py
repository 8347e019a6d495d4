"""Render the report of a drill as one HTML page without scripts or external assets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from jinja2 import Environment, StrictUndefined

from drkit.counted import counted, utc
from drkit.drill.evidence import BubbleEvidence
from drkit.drill.report import DrillReport

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: names of groups are other people's text."""
_TEMPLATE: Final = Path(__file__).with_name("report_page.html.jinja")
_SHOWN: Final = 500
"""Reasons and groups that the page lists; the JSON report has all."""
_BESIDE: Final = 0.2
"""The margin of the strip of outages."""


def render_page(report: DrillReport) -> str:
    """Return the HTML page of a report."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"utc": utc, "counted": counted, "whole": "{:,}".format}
    environment.filters["seconds"] = "{:,.1f}\N{NO-BREAK SPACE}s".format
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    bubble = report.evidence.bubble or BubbleEvidence()
    answers = sum((Counter(group.answers) for group in report.groups), Counter[str]())
    ends = [entry.at_ms for entry in report.timeline]
    return template.render(
        report=report,
        policy=POLICY,
        reasons=report.reasons[:_SHOWN],
        took=f"{(ends[-1] - ends[0]) / 1000:.0f} s" if ends else "",
        positions=[(f"Positions: {a}", "–", f"{n:,}", "–") for a, n in answers.most_common()],
        window=_outage_window(report),
        checks=[c for c in report.checks if c.examined or c.failed],
        idle=[c.name for c in report.checks if not (c.examined or c.failed)],
        groups=sorted(report.groups, key=lambda g: (not g.reason, g.group))[:_SHOWN],
        seconds=bubble.steps or {},
        kept=[f"{s}: {item}" for s, each in (bubble.inventory or {}).items() for item in each.residue],
    )


def _outage_window(report: DrillReport) -> tuple[float, float]:
    """Return the first second that the strip shows, and how many: all outages, and a little beside them."""
    began = min((outage.began_seconds for outage in report.rto), default=0.0)
    ended = max((outage.began_seconds + outage.seconds for outage in report.rto), default=0.0)
    beside = (ended - began) * _BESIDE or 1.0
    first = max(began - beside, 0.0)
    return first, ended + beside - first
