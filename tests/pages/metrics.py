"""The table of all metrics in Markdown, as in ``docs/reference/metrics.md``."""

from __future__ import annotations

from typing import Final

from drkit import observe
from drkit.monitoring.metrics import MM2, TABLE, MetricDescription

_UNITS: Final = (
    ("seconds", "seconds"), ("byte_rate", "bytes/s"), ("record_rate", "records/s"), ("_ms", "ms"),
    ("byte", "bytes"), ("repeats", "offsets"), ("left_out", "records"), ("left", "offsets"),
    ("frontier", "offset"), ("healthy", "0 or 1"), ("ready", "0 or 1"), ("fault", "1"), ("record", "records"),
    ("ratio", "0 to 1"), ("drill_last_verdict", "1"), ("drill", "0 or 1"),
)  # fmt: skip


def documentation() -> str:
    """Return the table of all metrics in Markdown."""
    counted = []
    for metric, labels in observe.COUNTED.items():
        (family,) = metric.collect()
        name = family.name + ("_total" if family.type == "counter" else "")
        counted.append(MetricDescription(name, family.type, labels, family.documentation))
    lines = ["| metric | kind | unit | labels | meaning |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{r.name}` | {r.kind} | {_unit(r)} | {', '.join(r.labels)} | {r.help} |"
        for r in (*counted, *TABLE.values())
    ]
    return "\n".join(lines) + "\n"


def _unit(metric: MetricDescription) -> str:
    """Return base units for Prometheus, milliseconds for MirrorMaker 2's names."""
    last = metric.name.removeprefix(MM2)
    return next((unit for part, unit in _UNITS if part in last), "count")
