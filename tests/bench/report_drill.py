"""The table about bubbles: one row for each, so that a drift of the machine is seen. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.drills import COST_GOAL, GOAL_SECONDS, PACE, BubbleRun
from tests.bench.tables import ms, seconds, table, whole


def drill_tables(runs: Sequence[BubbleRun]) -> list[str]:
    """Return the heading and the table; nothing without a run."""
    if not runs:
        return []
    rows = [
        [
            whole(run.round),
            run.verdict,
            seconds(run.seconds),
            *_compared(run.without.produce_p99, run.beside.produce_p99),
            *_compared(run.without.lag_p99, run.beside.lag_p99),
        ]
        for run in runs
    ]
    goal = f"< {COST_GOAL:.0%}"
    rows.append(["goal", "pass", f"< {GOAL_SECONDS:.0f}", "", "", goal, "", "", goal])
    header = ["round", "verdict", "bubble s", "produce p99 ms without", "beside", "more by",
              "replication lag p99 ms without", "beside", "more by"]  # fmt: skip
    return [f"### A bubble beside production of {PACE.per_second:,} records/s", table(header, rows)]


def _compared(without: float, beside: float) -> list[str]:
    return [ms(without), ms(beside), f"{beside / without - 1:.0%}"]
