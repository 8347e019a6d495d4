"""Results → the Markdown tables of ``docs/benchmarks.md``. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from tests.bench.latency import Latency
from tests.bench.scenarios import PARTS, TOGETHER, Pace, Scenario
from tests.bench.throughput import Throughput

BEGIN: Final = "<!-- benchmark: begin, written by make bench -->"
END: Final = "<!-- benchmark: end -->"
MIB: Final = 2**20
NOISE: Final = 0.05
"""A run in which strangers used more than this share of the machine is named below the tables."""


@dataclass(frozen=True, slots=True)
class Run:
    """One throughput run of one replicator, or why there is no figure."""

    scenario: Scenario
    peer: str
    round: int
    result: Throughput | None
    copied: int | None = None
    """Records counted on the target by a consumer (first round only)."""
    expected: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class PacedRun:
    """One latency run of one replicator, or why there is no figure."""

    pace: Pace
    peer: str
    result: Latency | None
    failure: str = ""


class Spread(NamedTuple):
    """Median and range of a few rounds."""

    middle: float
    low: float
    high: float

    def show(self, form: Callable[[float], str]) -> str:
        if self.low == self.high:
            return form(self.middle)
        return f"{form(self.middle)} ({form(self.low)}–{form(self.high)})"


def spread(values: Iterable[float]) -> Spread | None:
    """None when no round gave a figure."""
    found = list(values)
    return Spread(median(found), min(found), max(found)) if found else None


def to_markdown(facts: Mapping[str, str], runs: Sequence[Run], paced: Sequence[PacedRun]) -> str:
    """All tables; those without a single run are left out."""
    parts = [
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())])
    ]
    if runs:
        summed = with_sums(runs)
        parts += ["### Throughput", _throughput(summed), "### CPU seconds per million records", _cpu(summed)]
        parts += ["### Peak memory (resident, MiB)", _memory(runs)]
    if paced:
        parts += ["### End-to-end latency (ms)", _latency(paced)]
    remarks = list(_remarks([*runs, *paced]))
    return "\n\n".join(parts + ["\n".join(f"- {line}" for line in remarks)] * bool(remarks)) + "\n"


def with_sums(runs: Sequence[Run]) -> list[Run]:
    """The runs, and behind those of (b) one for each round in which a replicator copied (a) and (b)."""
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
            _cell(_values(runs, scenario, "mm2", lambda r: r.per_second), _count),
            _cell(_values(runs, scenario, "drkit", lambda r: r.per_second), _count),
            _cell(ratios(runs, scenario, "drkit", "mm2", lambda r: r.per_second), _times),
            f"≥ {scenario.goal.throughput:.0f}×" if scenario.goal else "",
            _cell(_values(runs, scenario, "mm2", lambda r: r.startup_seconds), _seconds),
            _cell(_values(runs, scenario, "drkit", lambda r: r.startup_seconds), _seconds),
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
    return _table(header, rows)


def _cpu(runs: Sequence[Run]) -> str:
    rows = [
        [
            _title(scenario),
            _cell(_values(runs, scenario, "mm2", lambda r: r.cpu_per_million), _seconds),
            _cell(_values(runs, scenario, "drkit", lambda r: r.cpu_per_million), _seconds),
            _cell(ratios(runs, scenario, "mm2", "drkit", lambda r: r.cpu_per_million), _times),
            f"≥ {scenario.goal.cpu:.0f}×" if scenario.goal and scenario.goal.cpu else "",
            _cell(_values(runs, scenario, "mm2", _broker_cpu), _seconds),
            _cell(_values(runs, scenario, "drkit", _broker_cpu), _seconds),
        ]
        for scenario in _scenarios(runs)
    ]
    header = ["data", "MM2", "drkit", "MM2 ÷ drkit", "goal", "brokers under MM2", "brokers under drkit"]
    return _table(header, rows)


def _memory(runs: Sequence[Run]) -> str:
    rows = [
        [
            _title(scenario),
            _cell(_values(runs, scenario, "mm2", lambda r: r.jvm_bytes / MIB), _whole),
            _cell(_values(runs, scenario, "drkit", lambda r: r.worker_bytes / MIB), _whole),
            "< 300",
            _cell(_values(runs, scenario, "drkit", lambda r: r.jvm_bytes / MIB), _whole),
            _cell(_values(runs, scenario, "drkit", lambda r: r.tree_bytes / MIB), _whole),
        ]
        for scenario in _scenarios(runs)
    ]
    return _table(
        ["data", "MM2's JVM", "drkit copy task", "goal", "drkit's JVM", "drkit, all processes"], rows
    )


def _latency(paced: Sequence[PacedRun]) -> str:
    rows = []
    for pace in dict.fromkeys(run.pace for run in paced):
        for peer in dict.fromkeys(run.peer for run in paced):
            found = [r.result for r in paced if r.pace == pace and r.peer == peer and r.result is not None]
            fields = ("p50", "p99", "p999", "highest", "records", "missing")
            cells = [spread(float(getattr(result, name)) for result in found) for name in fields]
            forms = (_ms, _ms, _ms, _ms, _count, _whole)
            rows.append([f"{pace.per_second}/s", peer, *map(_cell, cells, forms)])
    return _table(["pace", "", "p50", "p99", "p99.9", "highest", "records", "missing"], rows)


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


def _remarks(runs: Sequence[Run | PacedRun]) -> Iterable[str]:
    for run in runs:
        place = _place(run)
        if run.failure:
            yield f"{place}: no figure, {run.failure.splitlines()[0]}"
        if isinstance(run, Run) and run.copied is not None and run.copied != run.expected:
            yield f"{place}: {run.copied} records on the target, {run.expected} committed on the source"
        if run.result and run.result.foreign_cpu_share > NOISE:
            yield f"{place}: other processes used {run.result.foreign_cpu_share:.0%} of the machine"


def _place(run: Run | PacedRun) -> str:
    if isinstance(run, Run):
        return f"({run.scenario.key}) {run.peer}, round {run.round}"
    return f"({run.pace.per_second}/s) {run.peer}"


def _broker_cpu(result: Throughput) -> float:
    return result.broker_cpu_seconds / result.records * 1e6


def _title(scenario: Scenario) -> str:
    return f"({scenario.key}) {scenario.title}"


def _cell(value: Spread | None, form: Callable[[float], str]) -> str:
    return value.show(form) if value else "–"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _times(value: float) -> str:
    return f"{value:.1f}×"


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _ms(value: float) -> str:
    return f"{value:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
