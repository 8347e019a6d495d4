"""Define what a drill records and what it demands: the input of the judge. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from drkit.config.tables.drills import DrillObjectives
from drkit.drill.inventory import InventoryComparison
from drkit.drill.position_rows import NO_POSITIONS, Judged, PackedPositions, judge_position
from drkit.exercise.checks import CheckResult
from drkit.exercise.events import PRIMARY, STANDBY, Acked, Consumed
from drkit.exercise.history import ScenarioHistory
from drkit.status.pair.model import PairState

READINESS, TRANSLATION, BUBBLE, SWITCHOVER = "readiness", "translation", "bubble", "switchover"
"""Kinds of drills; the first two write nothing but their entry in the history."""


class ClientOutage(NamedTuple):
    """The outage of one client, by the monotonic clock of the machine."""

    client: str
    operation: str
    """produce or consume"""
    began_seconds: float
    """Its last good operation on the source, since the first one of any client."""
    seconds: float
    """From there to its first good operation on the target."""


class MeasuredLoss(NamedTuple):
    """Acknowledged records that are missing on the target, by the clients' own history."""

    records: int
    seconds: float
    """From the first lost acknowledgement to the last acknowledgement of the source."""


class ProductionLoss(NamedTuple):
    """Records that production would have lost if its source had died during the drill, by looks each 2 s."""

    looks: int
    unknown: int
    """Looks without an answer."""
    most_records: int
    most_seconds: float | None
    """Age of the oldest record, or None if it is unknown."""
    median_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class BubbleEvidence:
    """All that a bubble has recorded."""

    error: str = ""
    """The error of the step that failed, if any."""
    steps: Mapping[str, float] | None = None
    """Seconds of each step of its failover, or None if that is not done."""
    outages: tuple[ClientOutage, ...] = ()
    loss: MeasuredLoss | None = None
    checks: tuple[CheckResult, ...] = ()
    missing: tuple[str, ...] = ("the history was not checked",)
    """Items that the checks could not examine."""
    controls: Mapping[str, bool] | None = None
    """Defect that was put into the history → whether its check found it."""
    inventory: Mapping[str, InventoryComparison] | None = None
    """By the side of the drill."""
    cleanup_problems: tuple[str, ...] = ()
    scope: Mapping[str, str] | None = None
    """The result of :func:`drkit.drill.inventory.scope_of`, or None if it was not read."""
    production: ProductionLoss | None = None
    """None: no look answered."""
    is_application: bool = False
    """True if its clients had properties of an application instead of drkit's."""


def measure_outages(history: ScenarioHistory) -> tuple[ClientOutage, ...]:
    """Return the outage of each client that worked on both sides."""
    good: dict[tuple[str, str], dict[str, list[float]]] = {}
    for e in history.events:
        if isinstance(e, Acked | Consumed):
            operation = "produce" if isinstance(e, Acked) else "consume"
            client = e.by.partition(" ")[0]  # one that was started again has a number
            sides = good.setdefault((client, operation), {PRIMARY: [], STANDBY: []})
            sides[e.cluster].append(e.seconds)
    first = min((min(sides[PRIMARY]) for sides in good.values() if sides[PRIMARY]), default=0.0)
    spans = ((who, max(s[PRIMARY]), min(s[STANDBY])) for who, s in sorted(good.items()) if all(s.values()))
    return tuple(
        ClientOutage(*who, round(last - first, 3), round(back - last, 3)) for who, last, back in spans
    )


def measure_loss(history: ScenarioHistory) -> MeasuredLoss | None:
    """Return the loss of the source's acknowledged records on the target, or None if a log was not read."""
    of_source = [(record, e) for record, (_, e) in history.acked.items() if e.cluster == PRIMARY]
    if any((STANDBY, e.tp) not in history.log_ends for _, e in of_source):
        return None
    lost = [e.seconds for record, e in of_source if record not in history.offsets[STANDBY]]
    last = max((e.seconds for _, e in of_source), default=0.0)
    return MeasuredLoss(len(lost), round(last - min(lost), 3) if lost else 0.0)


class GroupCommit(NamedTuple):
    """A new offset that a group itself has committed."""

    seconds: float
    """Monotonic time at which it was read."""
    cluster: str
    """Alias."""
    group: str


class Move(NamedTuple):
    """A planned failover, as the commits of groups show it."""

    source: str
    target: str
    """Aliases."""
    began_seconds: float


class PlannedMove(NamedTuple):
    """A planned failover that is done."""

    flow: str
    seconds: float
    """From its begin until clients were repointed."""
    steps: Mapping[str, float]
    """Seconds of each step."""
    lost_records: int | None
    """None: unknown."""
    groups: int
    """Groups of its scope."""
    not_moved: Mapping[str, str] = {}
    """Group that has no exact position on the target, or remains on the source → why."""
    repeats: Mapping[str, int] = {}
    """Group → records that it reads again: it continued to read after its position was taken."""

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Return the evidence in the report of a run."""
        groups, loss = report["groups"], report["loss"] or {}
        unavailable = {group: min(reasons.values()) for group, reasons in groups["unavailable"].items()}
        return cls(
            flow=report["flow"],
            seconds=report["seconds"].get("until_repointed", 0.0),
            steps={step["step"]: step["seconds"] or 0.0 for step in report["steps"]},
            lost_records=loss.get("records") if loss.get("exact") else None,
            groups=len(groups["asked"]),
            not_moved=report["outside"].get("groups", {}) | unavailable,
            repeats=groups["repeats"],
        )


@dataclass(frozen=True, kw_only=True)
class SwitchoverEvidence:
    """All that a switchover drill has recorded."""

    error: str = ""
    """The error of the step that failed after production began to move, if any."""
    next_command: str = ""
    """The command that continues from there."""
    there: PlannedMove | None = None
    home: PlannedMove | None = None
    stays: bool = False
    """Clients were to stay on the target."""
    outages: tuple[ClientOutage, ...] = ()
    """The outages of groups, from the last commit on one cluster to the first on the other."""
    silent: tuple[tuple[str, str], ...] = ()
    """Group that was at work, and the cluster to which it did not follow."""
    pair_state: str = PairState.UNKNOWN
    """At the end, as ``drkit status`` names it."""
    pair_reason: str = "it was not read"
    protected_after_seconds: float | None = None
    """From the end of the first failover until the pair is seen PROTECTED again, or None if it is not."""

    @property
    def moves(self) -> tuple[PlannedMove, ...]:
        """The planned failovers that are done."""
        return tuple(move for move in (self.there, self.home) if move is not None)

    @property
    def steps(self) -> frozenset[str]:
        """The steps of failovers that production went through."""
        return frozenset(step for move in self.moves for step in move.steps)

    @property
    def loss(self) -> MeasuredLoss | None:
        """A loss of 0 if both failovers report it, or None if it is unknown or records are lost."""
        is_none = self.moves and all(move.lost_records == 0 for move in self.moves)
        return MeasuredLoss(0, 0.0) if is_none else None

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """The positions of groups, by failover, and whether groups at work followed."""
        checks = []
        for move in self.moves:
            offences = [f"{group}: {reason}" for group, reason in sorted(move.not_moved.items())]
            checks.append(CheckResult(f"positions of groups, {move.flow}", move.groups, offences))
        silent = [f"{group} did not commit on {cluster}" for group, cluster in self.silent]
        return *checks, CheckResult("groups at work followed", len(self.outages) + len(silent), silent)


def measure_group_outages(
    commits: Sequence[GroupCommit], moves: Sequence[Move]
) -> tuple[tuple[ClientOutage, ...], tuple[tuple[str, str], ...]]:
    """Return the outage of each group that was at work before a move, and the groups that did not follow.

    An outage includes the time between two commits of the group. A group without a commit before the move is
    idle, and not measured.
    """
    first = min((commit.seconds for commit in commits), default=0.0)
    times: dict[tuple[str, str], list[float]] = {}
    for commit in commits:
        times.setdefault((commit.group, commit.cluster), []).append(commit.seconds)
    outages: list[ClientOutage] = []
    silent: list[tuple[str, str]] = []
    for source, target, began in moves:
        for group in sorted(g for (g, cluster), s in times.items() if cluster == source and min(s) < began):
            resumed = min((s for s in times.get((group, target), ()) if s > began), default=None)
            if resumed is None:
                silent.append((group, target))
                continue
            last = max(s for s in times[group, source] if s < resumed)
            operation = f"commit on {target}"
            outages.append(ClientOutage(group, operation, round(last - first, 3), round(resumed - last, 3)))
    return tuple(outages), tuple(silent)


@dataclass(frozen=True, slots=True)
class SeenRefusal:
    """A reason for which a failover would be refused now."""

    gate: str
    """Name of the refusal, or "" if a step of the failover refuses."""
    runbook: str
    """Path of its page, or "" if it has none."""
    text: str
    """The problem, where it is, and the evidence."""


@dataclass(frozen=True, slots=True)
class ReadinessFacts:
    """The facts on which a failover would be decided now."""

    pair_state: str
    """The name that `drkit status` gives it, ``unknown`` where a cluster does not answer."""
    pair_reason: str = ""
    refusals: tuple[SeenRefusal, ...] = ()
    groups: int = 0
    not_ready: tuple[tuple[str, str], ...] = ()
    """Groups without a safe position, and why."""
    loss_seconds: float | None = None
    """Age of the oldest record that would be lost now, or None if it is unknown."""
    loss_records: int | None = None
    loss_basis: str = ""
    """The source of the loss."""
    unknown: tuple[str, ...] = ()
    """Facts that could not be read, with the reasons."""


class VerdictLimits(DrillObjectives):
    """The limits that a drill has to meet, each None without a limit."""

    behind_seconds: float | None = 60.0
    """Age of a stored position from which it must not be behind the group's committed offset."""


@dataclass(frozen=True)
class DrillEvidence:
    """All that a drill has recorded; its verdict follows from this alone."""

    positions: PackedPositions = NO_POSITIONS
    readiness: ReadinessFacts | None = None
    bubble: BubbleEvidence | None = None
    switchover: SwitchoverEvidence | None = None

    @property
    def failover(self) -> BubbleEvidence | SwitchoverEvidence:
        """The evidence of the failover that was run; empty if none was."""
        return self.bubble or self.switchover or BubbleEvidence()

    @cached_property
    def answers(self) -> tuple[Judged, ...]:
        """The answer for each position. Cached: a report asks for it three times."""
        return tuple(map(judge_position, self.positions.unpacked))
