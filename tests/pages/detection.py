"""The generated parts of ``docs/explanation/detection.md``.

``python -m tests.pages.detection`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
import sys
from typing import Final

from drkit.config.tables.auto_proof import times_of
from drkit.config.tables.detection import DetectionSettings
from drkit.config.tables.flow import FlowSettings
from drkit.config.tables.watch import FenceAgentSettings, WatchSettings
from drkit.detect.reasons import runbook
from drkit.detect.verdict import ABOUT_THE_PRIMARY, AGAINST_A_FAILOVER, LOST, VerdictKind, VerdictRow
from drkit.detect.votes import MEANS
from drkit.watch.board import TABLE as METRICS

PAGE: Final = Path("docs", "explanation", "detection.md")
_BEAT_SECONDS: Final = float(FlowSettings.model_fields["heartbeats_interval_seconds"].default)
_WHEN: Final = "condition (the first match wins)"


def verdicts() -> str:
    """The table of verdicts."""
    rows = [_verdict(row) for row in (*ABOUT_THE_PRIMARY, *AGAINST_A_FAILOVER, LOST)]
    return _table(("verdict", "reason", _WHEN, "what to do"), rows)


def _verdict(row: VerdictRow) -> tuple[str, ...]:
    reason = f"`{row.reason.value}`"
    if row.kind is VerdictKind.HOLD:
        reason = f"[{reason}](../../{runbook(row.reason)})"
    return row.kind.name, reason, row.condition, row.next


def sights() -> str:
    """What a vote says."""
    return _table(
        ("an observer sees", "its vote says"), [(f"`{s.value}`", m.value) for s, m in MEANS.items()]
    )


def metrics() -> str:
    """The metrics of the observers."""
    rows = [(f"`{name}`", ", ".join(labels), text) for name, (labels, text) in METRICS.items()]
    return _table(("metric", "labels", "meaning"), rows)


def rpo() -> str:
    """How much mode auto may lose with the settings as they are by default."""
    times = times_of(DetectionSettings(), WatchSettings(), FenceAgentSettings(), _BEAT_SECONDS)
    rows = [(f"`{t.setting}`", f"{t.seconds:g}", f"{t.least:g}") for t in times.terms]
    rows.append(("sum", f"**{times.longest:g}**", f"**{times.least:g}**"))
    return _table(("setting", "longest, s", "at least, s"), rows)


PARTS: Final = {"verdicts": verdicts, "sights": sights, "metrics": metrics, "rpo": rpo}


def filled(page: str) -> str:
    """The page with every generated part as it is now."""
    for name, part in PARTS.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = page.partition(begin)
        page = before + begin + part() + end + rest.partition(end)[2]
    return page


def main(folder: Path) -> None:
    """Write the page in a folder."""
    path = folder / PAGE
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{path}\n")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |\n" for line in lines)


if __name__ == "__main__":
    main(Path())
