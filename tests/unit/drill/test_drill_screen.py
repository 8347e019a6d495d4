"""The verdict of a drill on a terminal of 80 columns, and the strip of its outages."""

from __future__ import annotations

from pathlib import Path
import re

from drkit.cli.screens.drill import report_lines, step_line
from drkit.drill.evidence import (
    BUBBLE,
    BubbleEvidence,
    ClientOutage,
    DrillEvidence,
    MeasuredLoss,
    VerdictLimits,
)
from drkit.drill.inventory import InventoryComparison
from drkit.drill.judge import DrillVerdict
from drkit.drill.report import (
    DrillReport,
    PlanReport,
    ScopeReport,
    StepReport,
    build_report,
)
from drkit.drill.report_page import render_page
from drkit.exercise.checks import CheckResult
from drkit.journal.machine import FAILOVER

SCOPE = ScopeReport(flow="a->b", source="a", target="b", topics=3, partitions=0, groups=3)
OUTAGES = (
    ClientOutage("drkit-drill.d1.reader", "consume", 19.0, 3.0),
    ClientOutage("follower", "produce", 20.0, 5.0),
)


def bubble(rto_seconds: float | None = 60.0, **evidence) -> DrillReport:
    facts = {
        "steps": dict.fromkeys(FAILOVER.order, 1.5),
        "outages": OUTAGES,
        "loss": MeasuredLoss(0, 0.0),
        "checks": (CheckResult("once, in order", 7, []), CheckResult("same on both sides", 0, [])),
        "missing": (),
        "controls": {"two records swapped": True},
        "inventory": {side: InventoryComparison(residue=("topic kept",)) for side in ("source", "target")},
    }
    plan = PlanReport(name="weekly", objectives=VerdictLimits(rto_seconds=rto_seconds, rpo_seconds=30.0))
    found = DrillEvidence(bubble=BubbleEvidence(**(facts | evidence)))
    return build_report(BUBBLE, plan, found, id="d1", scope=SCOPE)


def test_the_screen_has_results_against_objectives_in_80_columns() -> None:
    lines = report_lines(bubble(), Path("report.json"))
    assert max(map(len, lines)) <= 80
    for line in (
        "  RTO        longest outage 5.0 s, limit 60 s: met",
        "             reader, consume: 3.0 s",
        "  RPO        loss 0.0 s, 0 records (records of the drill), limit 30 s: met",
        "             1 check had nothing to examine",
        "  cleanup    nothing of the drill is left",
    ):
        assert line in lines, lines
    assert step_line(StepReport(name="INVENTORY", seconds=1.25, outcome="x")).endswith("INVENTORY  x")


def test_an_outage_over_the_limit_is_named_on_the_screen_and_on_the_page() -> None:
    made = bubble(rto_seconds=4.0)
    assert "  RTO        longest outage 5.0 s, limit 4 s: NOT MET" in report_lines(made, Path("r"))
    html = render_page(made)
    assert "follower, produce: 5.0 s, over the limit" in html
    assert "reader, consume: 3.0 s<" in html


def test_bars_are_in_the_strip_in_the_order_of_time() -> None:
    """The unit of the strip is a second."""
    html = render_page(bubble())
    bars = [(float(x), float(width)) for x, width in re.findall(r'<rect x="(\S+)" y="0" width="(\S+)"', html)]
    assert bars == [(19.0, 3.0), (20.0, 5.0)]
    strips = {(float(first), float(width)) for first, width in re.findall(r'viewBox="(\S+) 0 (\S+) 1"', html)}
    assert len(strips) == 1
    first, width = strips.pop()
    assert 0 < first < bars[0][0] < sum(bars[1]) < first + width
    assert f"<span>{first:.1f} s</span><span>{first + width:.1f} s</span>" in html


def test_what_a_bubble_left_is_on_the_screen_and_on_the_page() -> None:
    left = InventoryComparison(ours_left=("topic orders",), unknown=("acl",))
    made = bubble(inventory={"target": left})
    lines = report_lines(made, Path("r"))
    assert "  cleanup    left: target: topic orders" in lines
    assert "             unknown: target: acl" in lines
    assert "target: topic orders" in render_page(made)
    assert "The inventories were not compared" in render_page(bubble(inventory=None))
    assert not any(line.startswith("  cleanup") for line in report_lines(bubble(inventory=None), Path("r")))


def test_a_bubble_that_a_failover_ended_owes_its_cleanup() -> None:
    ended = DrillVerdict("aborted", ("production failover r1 began",))
    steps = (StepReport(name="CREATE", seconds=1.0), StepReport(name="FAILOVER", seconds=1.0))
    plan = PlanReport(name="weekly")
    made = build_report(BUBBLE, plan, DrillEvidence(), ended, id="d1", scope=SCOPE, steps=steps)
    assert "  cleanup    owed: drkit drill cleanup" in report_lines(made, Path("r"))
    assert "did not run to its end" in render_page(made)
