"""Results → the Markdown tables of ``docs/benchmarks.md``. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tests.bench.report_drill import drill_tables
from tests.bench.report_failover import failover_tables
from tests.bench.report_groups import group_tables
from tests.bench.report_scale import scale_tables
from tests.bench.report_starts import start_tables
from tests.bench.results import CostRun, PacedRun, Results, Run
from tests.bench.scenarios import PARTS, TOGETHER, Scenario
from tests.bench.tables import Spread, cell, count, ms, seconds, spread, table, times, whole
from tests.bench.throughput import Throughput

BEGIN: Final = "<!-- benchmark: begin, written by make bench -->"
END: Final = "<!-- benchmark: end -->"
MIB: Final = 2**20
NOISE: Final = 0.05
"""A run in which strangers used more than this share of the machine is named below the tables."""


def to_markdown(facts: Mapping[str, str], results: Results) -> str:
    """All tables; those without a single run are left out."""
    runs, paced = results.runs, results.paced
    parts = [
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())])
    ]
    if runs:
        summed = with_sums(runs)
        parts += ["### Throughput", _throughput(summed), "### CPU seconds per million records", _cpu(summed)]
        parts += ["### Peak memory (resident, MiB)", _memory(runs)]
    if paced:
        parts += ["### End-to-end latency (ms)", _latency(paced)]
    parts += start_tables(results.restarts)
    parts += group_tables(results)
    parts += failover_tables(results)
    parts += drill_tables(results.bubbles)
    parts += scale_tables(results)
    remarks = [*_remarks([*runs, *paced, *results.costs]), *results.failures]
    return "\n\n".join(parts + ["\n".join(f"- {line}" for line in remarks)] * bool(remarks)) + "\n"


def with_sums(runs: Sequence[Run]) -> list[Run]:
    """The runs, with those of (b) followed by one for each round in which a replicator copied (a) and (b)."""
    found = list(runs)
    rounds = dict.fromkeys((run.peer, run.round) for run in runs)
    for peer, number in rounds:
        parts = [
            run.result
            for run in runs
            if run.scenario.key in PARTS and (run.peer, run.round) == (peer, number) and run.result
        ]
        if len(parts) == len(PARTS):
            found.append(Run(TOGETHER, peer, number, sum_of(parts)))
    order = {scenario: place for place, scenario in enumerate(dict.fromkeys(r.scenario for r in runs))}
    last_part = max((place for scenario, place in order.items() if scenario.key in PARTS), default=0)
    return sorted(found, key=lambda run: order.get(run.scenario, last_part + 0.5))


def sum_of(parts: Sequence[Throughput]) -> Throughput:
    """Runs one after the other, seen as one: what adds up is added, of memory and noise the most counts."""
    added = ("records", "seconds", "cpu_seconds", "broker_cpu_seconds", "startup_seconds")
    highest = ("foreign_cpu_share", "tree_bytes", "jvm_bytes", "worker_bytes")
    return Throughput(
        **{name: sum(getattr(part, name) for part in parts) for name in added},
        **{name: max(getattr(part, name) for part in parts) for name in highest},
    )


def splice(document: str, tables: str) -> str:
    """Put the tables between the markers of a document that has them."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{tables}\n{END}{tail}"


def _throughput(runs: Sequence[Run]) -> str:
    rows = [
        [
            _title(scenario),
            cell(_values(runs, scenario, "mm2", lambda r: r.per_second), count),
            cell(_values(runs, scenario, "drkit", lambda r: r.per_second), count),
            cell(ratios(runs, scenario, "drkit", "mm2", lambda r: r.per_second), times),
            f"≥ {scenario.goal.throughput:.0f}×" if scenario.goal else "",
            cell(_values(runs, scenario, "mm2", lambda r: r.startup_seconds), seconds),
            cell(_values(runs, scenario, "drkit", lambda r: r.startup_seconds), seconds),
        ]
        for scenario in _scenarios(runs)
    ]
    header = [
        "data",
        "MM2 records/s",
        "drkit records/s",
        "drkit ÷ MM2",
        "goal",
        "MM2 start-up s",
        "drkit start-up s",
    ]
    return table(header, rows)


def _cpu(runs: Sequence[Run]) -> str:
    rows = [
        [
            _title(scenario),
            cell(_values(runs, scenario, "mm2", lambda r: r.cpu_per_million), seconds),
            cell(_values(runs, scenario, "drkit", lambda r: r.cpu_per_million), seconds),
            cell(ratios(runs, scenario, "mm2", "drkit", lambda r: r.cpu_per_million), times),
            f"≥ {scenario.goal.cpu:.0f}×" if scenario.goal and scenario.goal.cpu else "",
            cell(_values(runs, scenario, "mm2", _broker_cpu), seconds),
            cell(_values(runs, scenario, "drkit", _broker_cpu), seconds),
        ]
        for scenario in _scenarios(runs)
    ]
    header = ["data", "MM2", "drkit", "MM2 ÷ drkit", "goal", "brokers under MM2", "brokers under drkit"]
    return table(header, rows)


def _memory(runs: Sequence[Run]) -> str:
    rows = [
        [
            _title(scenario),
            cell(_values(runs, scenario, "mm2", lambda r: r.jvm_bytes / MIB), whole),
            cell(_values(runs, scenario, "drkit", lambda r: r.worker_bytes / MIB), whole),
            "< 300",
            cell(_values(runs, scenario, "drkit", lambda r: r.jvm_bytes / MIB), whole),
            cell(_values(runs, scenario, "drkit", lambda r: r.tree_bytes / MIB), whole),
        ]
        for scenario in _scenarios(runs)
    ]
    return table(
        ["data", "MM2's JVM", "drkit copy task", "goal", "drkit's JVM", "drkit, all processes"], rows
    )


def _latency(paced: Sequence[PacedRun]) -> str:
    rows = []
    for pace in dict.fromkeys(run.pace for run in paced):
        for peer in dict.fromkeys(run.peer for run in paced):
            found = [r.result for r in paced if r.pace == pace and r.peer == peer and r.result is not None]
            fields = ("p50", "p99", "p999", "highest", "records", "missing")
            cells = [spread(float(getattr(result, name)) for result in found) for name in fields]
            forms = (ms, ms, ms, ms, count, whole)
            goal = f"p99.9 < {pace.goal_ms:.0f}" if peer == "drkit" else ""
            rows.append([f"{pace.per_second}/s", peer, *map(cell, cells, forms), goal])
    return table(["pace", "", "p50", "p99", "p99.9", "highest", "records", "missing", "goal"], rows)


def ratios(
    runs: Sequence[Run], scenario: Scenario, upper: str, lower: str, figure: Callable[[Throughput], float]
) -> Spread | None:
    """The ratio of two replicators per round, so that slow rounds of the machine hit both sides."""
    above, below = (
        {
            run.round: figure(run.result)
            for run in runs
            if run.result and (run.scenario, run.peer) == (scenario, peer)
        }
        for peer in (upper, lower)
    )
    return spread(above[number] / below[number] for number in above if below.get(number))


def _values(
    runs: Sequence[Run], scenario: Scenario, peer: str, figure: Callable[[Throughput], float]
) -> Spread | None:
    return spread(
        figure(run.result) for run in runs if run.result and run.scenario == scenario and run.peer == peer
    )


def _scenarios(runs: Sequence[Run]) -> list[Scenario]:
    return list(dict.fromkeys(run.scenario for run in runs))


def _remarks(runs: Sequence[Run | PacedRun | CostRun]) -> Iterable[str]:
    for run in runs:
        where = _place(run)
        if run.failure:
            yield f"{where}: no figure, {run.failure.splitlines()[0]}"
        if isinstance(run, Run) and run.copied is not None and run.copied != run.expected:
            yield f"{where}: {run.copied} records on the target, {run.expected} committed on the source"
        if run.result and run.result.foreign_cpu_share > NOISE:
            yield f"{where}: other processes used {run.result.foreign_cpu_share:.0%} of the machine"


def _place(run: Run | PacedRun | CostRun) -> str:
    if isinstance(run, CostRun):
        which = f"{'with' if run.checkpoints else 'without'} checkpoints"
        return f"copy {which}, {run.share:.0%} of the groups committing, round {run.round}"
    if isinstance(run, Run):
        return f"({run.scenario.key}) {run.peer}, round {run.round}"
    return f"({run.pace.per_second}/s) {run.peer}"


def _broker_cpu(result: Throughput) -> float:
    return result.broker_cpu_seconds / result.records * 1e6


def _title(scenario: Scenario) -> str:
    return f"({scenario.key}) {scenario.title}"
