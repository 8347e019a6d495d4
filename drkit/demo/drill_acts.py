"""The act of a drill: a bubble beside the shop, and the report that it leaves."""

from __future__ import annotations

from pathlib import Path
import signal
import sys
import time

from drkit.demo.replicator import environment
from drkit.demo.stage import Stage
from drkit.drill.report import DrillReport, read_report
from drkit.errors import Failed
from drkit.exercise.verdict import PASS
from drkit.local.process import Launched

REPORT, PAGE = "report.json", "drill.html"
_WORDS = ("drill", "run", "--kind", "bubble", "--report", REPORT, "--html", PAGE)
_PATIENCE_SECONDS = 120.0
_DRILL_SECONDS = 320.0
"""A drill ends itself after 300 s."""
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class RunDrill:
    """Run a bubble while the shop writes."""

    title = "A drill"

    def run(self, stage: Stage) -> None:
        """Type the command, show its output, and check that production did not notice.

        :raises Failed: the drill did not pass, or a record of the shop is not copied
        """
        folder = stage.report_folder
        stage.screen.say(
            "Would a failover work here? A [b]bubble[/b] rehearses a whole one with topics, groups and"
            " clients of its own, between the same two clusters. The shop keeps writing; its topics, its"
            " groups and its endpoint are not touched. At the end all that the drill made is deleted."
        )
        stage.watch(_PATIENCE_SECONDS, "the pair is protected", lambda: stage.protects("primary->standby"))
        stage.screen.command(f"drkit {' '.join(_WORDS)}")
        shop, observer = stage.shop, stage.observer
        before = shop.records
        report = _drilled(stage, folder)
        meanwhile = shop.records - before
        shop.close()
        stage.watch(_PATIENCE_SECONDS, "the last records", lambda: observer.records >= shop.records)
        stage.measured |= {
            "records": shop.records,
            "drill_meanwhile": meanwhile,
            "drill": report.id,
            "drill_verdict": report.verdict,
            "drill_outage_seconds": max(outage.seconds for outage in report.rto),
            "drill_lost": None if report.rpo is None else report.rpo.records,
            "drill_seconds": round(sum(step.seconds for step in report.steps), 1),
        }
        stage.screen.fact(
            f"the shop wrote {meanwhile:,} records meanwhile; all its {shop.records:,} are on the standby"
        )
        stage.screen.fact(f"the report: {folder / REPORT}, as a page: {folder / PAGE}")


def _drilled(stage: Stage, folder: Path) -> DrillReport:
    """Run the command in the folder of its report, show its output line by line, and return the report.

    :raises Failed: it did not pass
    """
    command = [sys.executable, "-m", "drkit", *_WORDS, "--config", str(stage.config)]
    log, files = stage.folder / "drill.log", (folder / REPORT, folder / PAGE)
    for file in files:
        file.unlink(missing_ok=True)
    # The files of the report are named in the command as from there.
    in_folder = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command]
    with log.open("wb") as written:
        drill = Launched(in_folder, written, environment(stage.folder))
    shown, deadline = 0, time.monotonic() + _DRILL_SECONDS
    try:
        drill.told_pid()
        while (running := drill.running and time.monotonic() < deadline) or shown < log.stat().st_size:
            with log.open("rb") as written:
                written.seek(shown)
                lines = written.readlines()
            for line in lines:
                if line.endswith(b"\n") or not running:
                    stage.screen.output(line.decode().rstrip("\n"))
                    shown += len(line)
            time.sleep(_LOOK_SECONDS)
    finally:
        drill.signal(signal.SIGKILL)
        drill.wait(_END_SECONDS)
    if (
        not all(file.exists() for file in files)
        or (report := read_report(files[0].read_bytes())).verdict != PASS
    ):
        evidence = log.read_text(encoding="utf-8")[-1500:]
        raise Failed("demo_drill_failed", where="drkit drill run", evidence=evidence)
    return report
