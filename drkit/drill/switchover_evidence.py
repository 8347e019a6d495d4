"""The evidence of a switchover drill: both planned failovers, outages of groups, the pair. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from drkit.chaos.checks import CheckResult
from drkit.drill.bubble_evidence import ClientOutage, MeasuredLoss, too_long
from drkit.status.pair.model import PairState


class GroupCommit(NamedTuple):
    """A new offset that a group itself has committed."""

    seconds: float
    """When it was read, by the monotonic clock of the machine."""
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
    """Group → records that it reads again: it read on after its position was taken."""

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Self:
        """Return the evidence in the report of a run."""
        groups, loss = report["groups"], report["loss"] or {}
        unavailable = {group: min(at.values()) for group, at in groups["unavailable"].items()}
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
    """Of the step that failed after production began to move; empty: none did."""
    next_command: str = ""
    """The command that continues from there."""
    there: PlannedMove | None = None
    home: PlannedMove | None = None
    stays: bool = False
    """Clients were to stay on the target."""
    outages: tuple[ClientOutage, ...] = ()
    """Of groups, from the last commit on one cluster to the first on the other."""
    silent: tuple[tuple[str, str], ...] = ()
    """Group that was at work, and the cluster to which it did not follow."""
    pair_state: str = PairState.UNKNOWN
    """At the end, as ``drkit status`` names it."""
    pair_reason: str = "it was not read"
    protected_after_seconds: float | None = None
    """From the end of the first failover until the pair was first seen PROTECTED again; None: it was not."""

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
        """No loss, if both failovers say so; None: unknown, or records are lost."""
        return (
            MeasuredLoss(0, 0.0) if self.moves and not any(m.lost_records != 0 for m in self.moves) else None
        )

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """The positions of groups, by failover, and whether groups at work followed."""
        positions = (
            CheckResult(
                f"positions of groups, {move.flow}",
                move.groups,
                [f"{group}: {reason}" for group, reason in sorted(move.not_moved.items())],
            )
            for move in self.moves
        )
        silent = [f"{group} did not commit on {cluster}" for group, cluster in self.silent]
        return *positions, CheckResult("groups at work followed", len(self.outages) + len(silent), silent)


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
        for group in sorted(g for (g, cluster), at in times.items() if cluster == source and min(at) < began):
            resumed = min((s for s in times.get((group, target), ()) if s > began), default=None)
            if resumed is None:
                silent.append((group, target))
                continue
            last = max(s for s in times[group, source] if s < resumed)
            what = f"commit on {target}"
            outages.append(ClientOutage(group, what, round(last - first, 3), round(resumed - last, 3)))
    return tuple(outages), tuple(silent)


def switchover_failures(
    evidence: SwitchoverEvidence, rto_seconds: float | None
) -> Iterator[tuple[bool, str]]:
    """Return what is wrong with a switchover: whether that is a failure, and what it is.

    What is no failure was not exercised, or not read.

    :param rto_seconds: longest outage of a group; None: any
    """
    if evidence.error:
        command = f"; continue: {evidence.next_command}" if evidence.next_command else ""
        yield True, evidence.error + command
    elif evidence.there is None or (evidence.home is None and not evidence.stays):
        yield True, "production was not moved" + (" home" if evidence.there is not None else "")
    yield from (
        (move.lost_records is not None, f"records lost by {move.flow}: {_number(move.lost_records)}")
        for move in evidence.moves
        if move.lost_records != 0
    )
    yield from ((True, f"{c.name}: {offence}") for c in evidence.checks for offence in c.offences)
    yield from too_long(evidence.outages, rto_seconds)
    if evidence.error:
        return
    if evidence.pair_state != PairState.PROTECTED:
        is_known = evidence.pair_state != PairState.UNKNOWN
        yield is_known, f"the pair is {evidence.pair_state}: {evidence.pair_reason}"
    if not evidence.outages and not evidence.silent:
        yield False, "no group committed before the switchover: no outage was measured"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
