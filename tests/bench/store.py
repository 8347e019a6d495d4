"""The JSON file of all runs: written after every scenario, so that a session cut short loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
import json
from pathlib import Path
from typing import Any

from tests.bench.latency import Latency
from tests.bench.report import PacedRun, Run
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.throughput import Throughput


def save(path: Path, facts: Mapping[str, str], runs: Sequence[Run], paced: Sequence[PacedRun]) -> None:
    """Everything that was measured, for machines."""
    document = {
        "machine": dict(facts),
        "throughput": [asdict(run) for run in runs],
        "latency": [asdict(run) for run in paced],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> tuple[list[Run], list[PacedRun]]:
    """What an earlier session saved, if any. Scenarios that no longer exist are left out."""
    if not path.exists():
        return [], []
    document: dict[str, Any] = json.loads(path.read_text())
    scenarios = {scenario.key: scenario for scenario in SCENARIOS}
    paces = {pace.per_second: pace for pace in PACES}
    runs = [
        Run(**{**raw, "scenario": scenarios[key], "result": raw["result"] and Throughput(**raw["result"])})
        for raw in document["throughput"]
        if (key := raw["scenario"]["key"]) in scenarios
    ]
    paced = [
        PacedRun(**{**raw, "pace": paces[rate], "result": raw["result"] and Latency(**raw["result"])})
        for raw in document["latency"]
        if (rate := raw["pace"]["per_second"]) in paces
    ]
    return runs, paced


def joined(
    old: tuple[Sequence[Run], Sequence[PacedRun]], new: tuple[Sequence[Run], Sequence[PacedRun]]
) -> tuple[list[Run], list[PacedRun]]:
    """Old runs of scenarios and paces that were not measured anew, and all new ones, in the usual order."""
    again, again_paced = {run.scenario for run in new[0]}, {run.pace for run in new[1]}
    runs = [*(run for run in old[0] if run.scenario not in again), *new[0]]
    paced = [*(run for run in old[1] if run.pace not in again_paced), *new[1]]
    return (
        sorted(runs, key=lambda run: SCENARIOS.index(run.scenario)),
        sorted(paced, key=lambda run: PACES.index(run.pace)),
    )
