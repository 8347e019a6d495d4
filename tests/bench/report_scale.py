"""Tables about size: how figures grow from size to size, and throughput by tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import math
from typing import Any, Final

from tests.bench.results import Results
from tests.bench.scale import BROKERS, COMMANDS, ROLES, ScaleRun
from tests.bench.scale_model import ModelRun
from tests.bench.tables import cell, count, seconds, spread, table, whole
from tests.bench.workers import WorkersRun

MIB: Final = 2**20
_NOTHING: Final = 1e-9
_LEAST: Final = 1e-4
Figure = Callable[[ScaleRun], float]


def scale_tables(results: Results) -> list[str]:
    """Headings and tables; those without a figure are left out."""
    parts: list[str] = []
    if results.scale:
        parts += ["### Many topics, partitions and groups", _sizes(results.scale)]
    if results.models:
        parts += ["### Plans, leases and state by number of partitions (no cluster)", _models(results.models)]
    if results.workers:
        parts += ["### One copy by more and more tasks (1 KB records, lz4)", _workers(results.workers)]
    return parts


def growth(small: float, large: float, times: float) -> float:
    """The power of the size with which a figure grows: 1 is in proportion, 2 its square.

    :param times: how many times as large the large size is
    """
    return math.log(max(large, _NOTHING) / max(small, _NOTHING)) / math.log(times)


def _sizes(runs: Sequence[ScaleRun]) -> str:
    runs = sorted(runs, key=lambda run: run.topics)
    sizes = [f"{count(r.topics)} / {count(r.partitions)} / {count(r.groups)}" for r in runs]
    rows = [_row(runs, name, figure, form) for name, figure, form in _figures()]
    busy = ", ".join(f"{r.busy:.1f}" for r in runs)
    header = ["topics / partitions / groups", *sizes, "grows with size to the power of"]
    return table(header, rows) + f"\n\nLoad of the machine at the end of each size: {busy}."


def _row(runs: Sequence[ScaleRun], name: str, figure: Figure, form: Callable[[float], str]) -> list[str]:
    values = [figure(r) for r in runs]
    power = ""
    if len(runs) > 1 and min(values[0], values[-1]) > 0:
        power = f"{growth(values[0], values[-1], runs[-1].topics / runs[0].topics):.1f}"
    return [name, *map(form, values), power]


def _figures() -> list[tuple[str, Figure, Callable[[float], str]]]:
    """Name, value and form of each row."""
    found: list[tuple[str, Figure, Callable[[float], str]]] = [
        ("start, empty target, to the first record: s", lambda r: r.first_record, seconds),
        ("to the last record: s", lambda r: r.all_records, seconds),
        ("to the last group's position: s", lambda r: r.all_groups, seconds),
        ("restart to the first new record: s", lambda r: r.restart, seconds),
        ("new topic to its first record: s", lambda r: r.new_topic, seconds),
        ("delay under light load, p50: ms", lambda r: r.delay_p50, seconds),
        ("delay under light load, p99: ms", lambda r: r.delay_p99, seconds),
    ]
    found += [
        (f"memory of {role}, PSS: MiB", lambda r, role=role: r.memory[role] / MIB, whole)  # type: ignore[misc]
        for role in ROLES
    ]
    found.append(("memory, all processes, PSS: MiB", lambda r: sum(r.memory.values()) / MIB, whole))
    for title, of in (("at rest", _rest), ("under light load", _load)):
        found += [
            (f"{title}, {role}: CPU s a minute", lambda r, role=role, of=of: of(r)[role], seconds)  # type: ignore[misc]
            for role in (*ROLES, *BROKERS)
        ]
    for name in COMMANDS:
        found += [
            (f"`drkit {name}`: s", lambda r, n=name: r.command_seconds[n], seconds),  # type: ignore[misc]
            (f"`drkit {name}`: CPU s", lambda r, n=name: r.command_cpu[n], seconds),  # type: ignore[misc]
        ]
    return found


def _rest(run: ScaleRun) -> dict[str, float]:
    return run.rest


def _load(run: ScaleRun) -> dict[str, float]:
    return run.load


def _models(runs: Sequence[ModelRun]) -> str:
    def row(name: str, of: Callable[[ModelRun], dict[str, Any]], unit: float, form: str) -> list[str]:
        values = [of(r)[name] for r in runs]
        times = runs[-1].partitions / runs[0].partitions
        power = f"{growth(values[0], values[-1], times):.1f}" if len(runs) > 1 and values[0] > _LEAST else ""
        return [name, *(form.format(v * unit) for v in values), power]

    rows = [row(name, lambda r: r.seconds, 1000, "{:.1f} ms") for name in runs[0].seconds]
    rows += [row(name, lambda r: r.sizes, 0.001, "{:,.0f} kB") for name in runs[0].sizes]
    header = ["partitions", *(count(r.partitions) for r in runs), "grows to the power of"]
    return table(header, rows)


def _workers(runs: Sequence[WorkersRun]) -> str:
    rows = []
    for tasks in sorted({r.tasks for r in runs}):
        mine = [r for r in runs if r.tasks == tasks]
        rows.append([
            str(tasks),
            cell(spread(r.per_second for r in mine), count),
            cell(spread(r.bytes_per_second / 1e6 for r in mine), count),
            cell(spread(r.cpu_per_gb for r in mine), _two),
            cell(spread(r.broker_cpu_per_gb for r in mine), _two),
            cell(spread(100 * r.idle for r in mine), whole),
        ])  # fmt: skip
    header = ["tasks", "records/s", "MB/s", "drkit: CPU s per GB", "brokers: CPU s per GB", "machine idle %"]
    return table(header, rows)


def _two(value: float) -> str:
    return f"{value:.2f}"
