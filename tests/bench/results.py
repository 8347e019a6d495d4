"""Everything that a session measures, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.bench.detection import DetectionRun
from tests.bench.drills import BubbleRun
from tests.bench.failovers import FailoverRun
from tests.bench.groups import GroupRound, SyncDelay
from tests.bench.homecoming import ReturnRun
from tests.bench.latency import Latency
from tests.bench.lost_primary import LostPrimaryRun, StartUp
from tests.bench.offset_map import MapCost
from tests.bench.repointing import Moved
from tests.bench.scale import ScaleRun
from tests.bench.scale_model import ModelRun
from tests.bench.scenarios import PACES, SCENARIOS, Pace, Scenario
from tests.bench.starts import ReplicatorStart
from tests.bench.switchback import SwitchRun
from tests.bench.takeovers import TakeoverRun
from tests.bench.throughput import Throughput
from tests.bench.workers import WorkersRun


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


@dataclass(frozen=True, slots=True)
class CostRun:
    """One copy by drkit with groups on the source, or why there is no figure."""

    checkpoints: bool
    """Whether drkit did checkpoint work meanwhile."""
    groups: int
    round: int
    result: Throughput | None
    failure: str = ""
    share: float = 0.0
    """Of the groups that committed between two rounds."""


@dataclass(slots=True)
class Results:
    """What one session, or several, have measured."""

    runs: list[Run] = field(default_factory=list)
    paced: list[PacedRun] = field(default_factory=list)
    rounds: list[GroupRound] = field(default_factory=list)
    delays: list[SyncDelay] = field(default_factory=list)
    maps: list[MapCost] = field(default_factory=list)
    costs: list[CostRun] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What of groups, of the map and of failovers gave no figure in this session."""
    failovers: list[FailoverRun] = field(default_factory=list)
    detections: list[DetectionRun] = field(default_factory=list)
    repoints: list[Moved] = field(default_factory=list)
    lost: list[LostPrimaryRun] = field(default_factory=list)
    starts: list[StartUp] = field(default_factory=list)
    takeovers: list[TakeoverRun] = field(default_factory=list)
    restarts: list[ReplicatorStart] = field(default_factory=list)
    scale: list[ScaleRun] = field(default_factory=list)
    workers: list[WorkersRun] = field(default_factory=list)
    models: list[ModelRun] = field(default_factory=list)
    switches: list[SwitchRun] = field(default_factory=list)
    returns: list[ReturnRun] = field(default_factory=list)
    bubbles: list[BubbleRun] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether anything gave no figure."""
        tried: list[Run | PacedRun | CostRun] = [*self.runs, *self.paced, *self.costs]
        return bool(self.failures) or any(run.failure for run in tried)


def joined(old: Results, new: Results) -> Results:
    """The new results, and the old ones that were not measured again, in the usual order."""
    again, again_paced = {run.scenario for run in new.runs}, {run.pace for run in new.paced}
    runs = [*(run for run in old.runs if run.scenario not in again), *new.runs]
    paced = [*(run for run in old.paced if run.pace not in again_paced), *new.paced]
    return Results(
        sorted(runs, key=lambda run: SCENARIOS.index(run.scenario)),
        sorted(paced, key=lambda run: PACES.index(run.pace)),
        new.rounds or old.rounds,
        new.delays or old.delays,
        new.maps or old.maps,
        new.costs or old.costs,
        new.failures,
        new.failovers or old.failovers,
        new.detections or old.detections,
        new.repoints or old.repoints,
        new.lost or old.lost,
        new.starts or old.starts,
        new.takeovers or old.takeovers,
        restarts=new.restarts or old.restarts,
        scale=new.scale or old.scale,
        workers=new.workers or old.workers,
        models=new.models or old.models,
        switches=new.switches or old.switches,
        returns=new.returns or old.returns,
        bubbles=new.bubbles or old.bubbles,
    )
