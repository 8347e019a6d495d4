"""The page of a drill in a browser: all of it fits a phone, and the text beside the bars can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.drill.evidence import BUBBLE, BubbleEvidence, ClientOutage, DrillEvidence, VerdictLimits
from drkit.drill.report import PlanReport, ScopeReport, build_report
from drkit.drill.report_page import render_page
from drkit.journal.machine import FAILOVER
from tests.support.status.browser import PROGRAM, Browser

SCOPE = ScopeReport(flow="a->b", source="a", target="b", topics=3, partitions=0, groups=3)
OUTAGES = tuple(ClientOutage(f"drkit-drill.d1.client-{n}", "produce", 20.0 + n, 3.0 + n) for n in range(3))
LEAST_PIXELS = 12


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")
def test_the_page_fits_a_phone(tmp_path: Path) -> None:
    plan = PlanReport(name="weekly", objectives=VerdictLimits(rto_seconds=4.0, rpo_seconds=30.0))
    evidence = BubbleEvidence(steps=dict.fromkeys(FAILOVER.order, 1.5), outages=OUTAGES)
    report = build_report(BUBBLE, plan, DrillEvidence(bubble=evidence), id="d1", scope=SCOPE)
    page = tmp_path / "drill.html"
    page.write_text(render_page(report), encoding="utf-8")
    with Browser(tmp_path / "browser") as browser:
        for width, scheme in ((390, "light"), (390, "dark"), (1200, "light")):
            browser.size(width, scheme=scheme)
            browser.open(page.as_uri(), "document.readyState === 'complete'")
            assert browser.run("document.documentElement.scrollWidth") <= width
            sizes = browser.run(
                "[...document.querySelectorAll('p, td, th, b, span, code')]"
                ".map(e => parseFloat(getComputedStyle(e).fontSize))"
            )
            assert min(sizes) >= LEAST_PIXELS
            bars = browser.run(
                "[...document.querySelectorAll('.outage rect')].map(e => e.getBoundingClientRect().width)"
            )
            assert len(bars) == len(OUTAGES)
            assert bars == sorted(bars)
            assert bars[0] > 0
        assert "client-2, produce: 5.0 s, over the limit" in browser.text()
