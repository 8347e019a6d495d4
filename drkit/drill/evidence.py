"""Define what a drill records and what it demands: the input of the judge. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from drkit.drill.bubble_evidence import BubbleEvidence
from drkit.drill.packed_positions import Positions
from drkit.drill.position_rows import Judged, judge_position
from drkit.drill.switchover_evidence import SwitchoverEvidence

READINESS, TRANSLATION, BUBBLE, SWITCHOVER = "readiness", "translation", "bubble", "switchover"
"""Kinds of drills; the first two write nothing but their entry in the history."""


@dataclass(frozen=True, slots=True)
class SeenRefusal:
    """A reason for which a failover would be refused now."""

    gate: str
    """Name of the refusal; empty: a step of the failover refuses."""
    runbook: str
    """Path of its page; empty: it has none."""
    text: str
    """What is wrong, where, and the evidence."""


@dataclass(frozen=True, slots=True)
class ReadinessFacts:
    """The facts on which a failover would be decided now."""

    pair_state: str
    """As `drkit status` names it; ``unknown`` where a cluster does not answer."""
    pair_reason: str = ""
    refusals: tuple[SeenRefusal, ...] = ()
    groups: int = 0
    not_ready: tuple[tuple[str, str], ...] = ()
    """Groups without a safe position, and why."""
    loss_seconds: float | None = None
    """Age of the oldest record that would be lost now; None: unknown."""
    loss_records: int | None = None
    loss_basis: str = ""
    """How the loss is known."""
    unknown: tuple[str, ...] = ()
    """What could not be read, and why."""


@dataclass(frozen=True, slots=True)
class VerdictLimits:
    """The limits that a drill has to meet; None: no limit."""

    rto_seconds: float | None = None
    rpo_seconds: float | None = None
    behind_seconds: float | None = 60.0
    """Age of a stored position from which it must not be behind the group's committed offset."""


@dataclass(frozen=True)
class DrillEvidence:
    """All that a drill has recorded; its verdict follows from this alone."""

    positions: Positions = ()
    readiness: ReadinessFacts | None = None
    bubble: BubbleEvidence | None = None
    switchover: SwitchoverEvidence | None = None

    @cached_property
    def answers(self) -> tuple[Judged, ...]:
        """The answer for each position. Cached: a report asks for it three times."""
        return tuple(map(judge_position, self.positions))
