"""Runs of consecutive source offsets, as map records have them."""

from __future__ import annotations

from drkit.wire import Chunk


def extend_runs(runs: list[tuple[int, int]], chunk: Chunk) -> None:
    """Add a chunk's runs to (first source offset, records) pairs, joining what is consecutive."""
    for run in chunk.runs:
        if runs and runs[-1][0] + runs[-1][1] == run.source:
            runs[-1] = (runs[-1][0], runs[-1][1] + run.count)
        else:
            runs.append((run.source, run.count))
