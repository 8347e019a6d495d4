"""The table about starts of a replicator. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.bench.starts import GOAL_PSS, ReplicatorStart
from tests.bench.tables import Spread, cell, seconds, spread, table, times, whole

_MEGABYTE: Final = 1e6
_PEERS: Final = ("mm2", "drkit")
_BELOW_MM2: Final = "< 1×"


def start_tables(runs: Sequence[ReplicatorStart]) -> list[str]:
    """Heading and table; nothing without a figure."""
    if not runs:
        return []
    rows = [
        _row("start to first record, s", runs, lambda r: r.first, seconds, _BELOW_MM2),
        _row("processor seconds until then", runs, lambda r: r.cpu, seconds, ""),
        _row("SIGKILL and start at once, to next record, s", runs, lambda r: r.again, seconds, _BELOW_MM2),
        _row(
            "memory at rest (PSS), MB", runs, lambda r: r.pss_bytes / _MEGABYTE, whole,
            f"< {GOAL_PSS / _MEGABYTE:,.0f} MB",
        ),
    ]  # fmt: skip
    return ["### A replicator that starts", table(["", "MM2", "drkit", "drkit ÷ MM2", "goal"], rows)]


def _row(
    title: str,
    runs: Sequence[ReplicatorStart],
    figure: Callable[[ReplicatorStart], float],
    form: Callable[[float], str],
    goal: str,
) -> list[str]:
    by_peer = {peer: {r.round: figure(r) for r in runs if r.peer == peer} for peer in _PEERS}
    mm2, drkit = (by_peer[peer] for peer in _PEERS)
    ratio: Spread | None = spread(drkit[n] / mm2[n] for n in drkit if mm2.get(n))
    figures = [cell(spread(found.values()), form) for found in by_peer.values()]
    return [title, *figures, cell(ratio, times), goal]
