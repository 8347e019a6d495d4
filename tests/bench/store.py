"""The JSON file of all runs: written after every scenario, so that a session cut short loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
import json
from pathlib import Path
from typing import Any

from tests.bench.detection import DetectionRun
from tests.bench.drills import BubbleRun, Window
from tests.bench.failovers import FailoverRun
from tests.bench.groups import GroupRound, SyncDelay
from tests.bench.homecoming import ReturnRun
from tests.bench.latency import Latency
from tests.bench.lost_primary import LostPrimaryRun, StartUp
from tests.bench.offset_map import MapCost
from tests.bench.repointing import Moved
from tests.bench.results import CostRun, PacedRun, Results, Run
from tests.bench.scale import ScaleRun
from tests.bench.scale_model import ModelRun
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.starts import ReplicatorStart
from tests.bench.switchback import SwitchRun
from tests.bench.takeovers import TakeoverRun
from tests.bench.throughput import Throughput
from tests.bench.workers import WorkersRun


def save(path: Path, facts: Mapping[str, str], results: Results) -> None:
    """Everything that was measured, for machines."""
    document = {
        "machine": dict(facts),
        "throughput": _plain(results.runs),
        "latency": _plain(results.paced),
        "checkpoint_rounds": _plain(results.rounds),
        "group_delays": _plain(results.delays),
        "offset_map": _plain(results.maps),
        "checkpoint_cost": _plain(results.costs),
        "failovers": _plain(results.failovers),
        "detection": [run._asdict() for run in results.detections],
        "clients": [client._asdict() for client in results.repoints],
        "lost_primary": _plain(results.lost),
        "start_up": _plain(results.starts),
        "takeovers": _plain(results.takeovers),
        "replicator_starts": _plain(results.restarts),
        "scale": _plain(results.scale),
        "workers": _plain(results.workers),
        "models": _plain(results.models),
        "switches": _plain(results.switches),
        "returns": _plain(results.returns),
        "bubbles": _plain(results.bubbles),
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _plain(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def load(path: Path) -> Results:
    """What an earlier session saved, if any. Scenarios that no longer exist are left out."""
    if not path.exists():
        return Results()
    document: dict[str, Any] = json.loads(path.read_text())
    scenarios = {scenario.key: scenario for scenario in SCENARIOS}
    paces = {pace.per_second: pace for pace in PACES}
    return Results(
        [
            Run(
                **{**raw, "scenario": scenarios[key], "result": raw["result"] and Throughput(**raw["result"])}
            )
            for raw in document["throughput"]
            if (key := raw["scenario"]["key"]) in scenarios
        ],
        [
            PacedRun(**{**raw, "pace": paces[rate], "result": raw["result"] and Latency(**raw["result"])})
            for raw in document["latency"]
            if (rate := raw["pace"]["per_second"]) in paces
        ],
        [GroupRound(**raw) for raw in document.get("checkpoint_rounds", ())],
        [SyncDelay(**raw) for raw in document.get("group_delays", ())],
        [MapCost(**raw) for raw in document.get("offset_map", ())],
        [
            CostRun(**{**raw, "result": raw["result"] and Throughput(**raw["result"])})
            for raw in document.get("checkpoint_cost", ())
        ],
        failovers=[FailoverRun(**raw) for raw in document.get("failovers", ())],
        detections=[DetectionRun(**raw) for raw in document.get("detection", ())],
        repoints=[Moved(**raw) for raw in document.get("clients", ())],
        lost=[LostPrimaryRun(**raw) for raw in document.get("lost_primary", ())],
        starts=[StartUp(**raw) for raw in document.get("start_up", ())],
        takeovers=[TakeoverRun(**raw) for raw in document.get("takeovers", ())],
        restarts=[ReplicatorStart(**raw) for raw in document.get("replicator_starts", ())],
        scale=[ScaleRun(**raw) for raw in document.get("scale", ())],
        workers=[WorkersRun(**raw) for raw in document.get("workers", ())],
        models=[ModelRun(**raw) for raw in document.get("models", ())],
        switches=[SwitchRun(**raw) for raw in document.get("switches", ())],
        returns=[ReturnRun(**raw) for raw in document.get("returns", ())],
        bubbles=[
            BubbleRun(**{**raw, "without": Window(*raw["without"]), "beside": Window(*raw["beside"])})
            for raw in document.get("bubbles", ())
        ],
    )
