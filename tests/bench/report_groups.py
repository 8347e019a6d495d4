"""Tables about consumer groups: rounds, delays, the map, and what checkpoints cost the copy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.bench.groups import GroupRound
from tests.bench.positions import GROUP_PARTITIONS
from tests.bench.results import CostRun, Results
from tests.bench.scenarios import GOAL_GROUPS
from tests.bench.tables import Spread, cell, count, seconds, spread, table, whole

MIB: Final = 2**20
ROUND_GOAL: Final = 10.0
DELAY_GOAL: Final = 2
"""In intervals."""
MAP_GOAL_MIB: Final = 64
LOOKUP_GOAL_US: Final = 5
COST_GOAL: Final = 0.10


def group_tables(results: Results) -> list[str]:
    """Headings and tables; those without a figure are left out."""
    parts: list[str] = []
    if results.rounds:
        parts += [f"### Checkpoint rounds (groups × {GROUP_PARTITIONS} partitions)", _rounds(results.rounds)]
    if results.delays:
        parts += ["### Delay of group offsets (s)", _delays(results)]
    if results.maps:
        parts += ["### The offset map in memory", _maps(results)]
    if results.costs:
        parts += ["### What checkpoints cost the copy", _costs(results.costs)]
    return parts


def _rounds(rounds: Sequence[GroupRound]) -> str:
    def of(groups: int, figure: Callable[[GroupRound], float]) -> Spread | None:
        return spread(figure(r) for r in rounds if r.groups == groups)

    rows = [
        [
            count(groups),
            count(groups * GROUP_PARTITIONS),
            cell(of(groups, lambda r: r.seconds), seconds),
            f"< {ROUND_GOAL:.0f}" if groups == GOAL_GROUPS else "",
            cell(of(groups, lambda r: r.seconds / r.positions * 1e6), whole),
            cell(of(groups, lambda r: r.cpu_seconds), seconds),
            cell(of(groups, lambda r: r.broker_cpu_seconds), seconds),
            cell(of(groups, lambda r: r.rest_seconds), seconds),
            cell(of(groups, lambda r: r.rest_cpu_seconds), seconds),
            count(sum(r.wrong for r in rounds if r.groups == groups)),
        ]
        for groups in sorted({r.groups for r in rounds})
    ]
    header = [
        "groups", "offsets", "all moved: s", "goal", "µs per offset", "CPU s", "brokers' CPU s",
        "at rest: s", "CPU s", "wrong offsets",
    ]  # fmt: skip
    return table(header, rows)


def _delays(results: Results) -> str:
    rows = [
        [
            count(d.groups),
            seconds(d.interval_seconds),
            seconds(d.p50),
            seconds(d.p99),
            f"< {DELAY_GOAL * d.interval_seconds:.0f}",
            seconds(d.highest),
            count(d.commits),
            whole(d.missing),
        ]
        for d in results.delays
    ]
    return table(["groups", "interval", "p50", "p99", "goal", "highest", "commits", "missing"], rows)


def _maps(results: Results) -> str:
    rows = [
        [
            count(m.segments),
            whole(m.partitions),
            whole(m.resident_bytes / MIB),
            whole(m.peak_bytes / MIB),
            f"< {MAP_GOAL_MIB}",
            f"{m.forward_us:.2f}",
            f"{m.backward_us:.2f}",
            f"< {LOOKUP_GOAL_US}",
            seconds(m.read_seconds),
        ]
        for m in results.maps
    ]
    header = [
        "segments", "partitions", "resident MiB", "peak while read MiB", "goal", "lookup µs", "and back µs",
        "goal", "read in s",
    ]  # fmt: skip
    return table(header, rows)


def _costs(runs: Sequence[CostRun]) -> str:
    rows = []
    for groups, share in sorted({(r.groups, r.share) for r in runs}):
        found = {
            on: {
                r.round: r.result
                for r in runs
                if r.result and (r.checkpoints, r.groups, r.share) == (on, groups, share)
            }
            for on in (False, True)
        }
        lowered = spread(
            1 - found[True][n].per_second / found[False][n].per_second
            for n in found[True]
            if n in found[False]
        )
        rows.append([
            count(groups),
            _percent(share),
            cell(spread(r.per_second for r in found[False].values()), count),
            cell(spread(r.per_second for r in found[True].values()), count),
            cell(lowered, _percent),
            f"< {COST_GOAL:.0%}",
            cell(spread(r.cpu_per_million for r in found[False].values()), seconds),
            cell(spread(r.cpu_per_million for r in found[True].values()), seconds),
        ])  # fmt: skip
    header = [
        "groups", "of these commit between two rounds", "without: records/s", "with: records/s", "lowered by",
        "goal", "without: CPU s per million", "with: CPU s per million",
    ]  # fmt: skip
    return table(header, rows)


def _percent(value: float) -> str:
    return f"{value:.0%}"
