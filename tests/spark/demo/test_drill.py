"""`drkit demo --drill` rehearses a failover beside the shop, and leaves its report alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest

from drkit.drill.report import check_report, read_report
from drkit.exercise.verdict import PASS
from tests.support.errors import sentence

COMMAND = [sys.executable, "-m", "drkit", "demo", "--drill"]


@pytest.mark.wide
@pytest.mark.timeout(400)  # a minute and a half on a quiet machine
def test_the_demo_of_a_drill_leaves_its_report_and_nothing_else(tmp_path: Path) -> None:
    """Production keeps working beside a bubble."""
    reports = tmp_path / "reports"
    with TemporaryDirectory() as place:  # a short path: the drill has a socket below it
        done = subprocess.run(
            [*COMMAND, "--json", "--rate", "300", "--report", str(reports)],
            env={**os.environ, "TMPDIR": place},
            capture_output=True,
            text=True,
            check=False,
            timeout=380,
        )
        assert not list(Path(place).glob("drkit-demo-*"))
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout)
    report = read_report((reports / "report.json").read_bytes())
    assert check_report(report) == []
    assert (report.id, report.kind, report.verdict) == (measured["drill"], "bubble", PASS)
    assert report.cleanup is not None
    assert not report.cleanup.left
    assert measured["drill_lost"] == 0
    assert 0 < measured["drill_outage_seconds"] < 60
    assert measured["drill_meanwhile"] > 1000
    assert report.id in (reports / "drill.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in reports.iterdir()) == ["drill.html", "report.json"]


def test_a_drill_is_refused_with_clusters_that_are_kept(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--keep"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence("keep_and_drill") in done.stderr
    assert not list(tmp_path.iterdir())
