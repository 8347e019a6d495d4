"""Metrics of drills. A process that replicates or watches exports them: a dead scheduler must be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from drkit.monitoring.metrics_pair import Sample

_DRILL: Final = ("source", "target", "drill", "kind")
"""Files for different pairs may have drills of one name."""
PASSED: Final = "drkit_drill_last_pass_timestamp_seconds"
VERDICT: Final = "drkit_drill_last_verdict"
OVERDUE: Final = "drkit_drill_overdue"
OWED: Final = "drkit_drill_cleanup_owed"

DRILL_ROWS: Final = (
    (
        PASSED,
        "gauge",
        _DRILL,
        "When the last drill that passed began, since 1970; none before the first pass.",
    ),
    (VERDICT, "gauge", (*_DRILL, "verdict"), "1 for the verdict of the last drill that ended."),
    (OVERDUE, "gauge", _DRILL, "1: it did not pass within max_age_days."),
    (OWED, "gauge", _DRILL, "1: what it made may still be there, see drkit drill cleanup."),
)
DrillSamples = Callable[[], Iterable[Sample]]
