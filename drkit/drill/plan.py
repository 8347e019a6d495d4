"""The plan of one drill: what is rehearsed, within which limits, and what it must achieve. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
import re
from typing import Final, Literal

from drkit.clock import Millis, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.config.tables.drills import DrillKind, DrillLimits, DrillObjectives, DrillSettings

DRILL_ID: Final = re.compile(r"\d{8}t\d{6}-[0-9a-f]{6}")
"""It has no dot: names of topics and groups have the id between dots."""


@dataclass(frozen=True, kw_only=True)
class DrillPlan:
    """The plan of one drill."""

    id: str
    """By time, and unique: see :func:`new_drill_id`."""
    name: str
    """Of the ``[[drills]]`` table; of a drill without one, its kind."""
    kind: DrillKind
    flow: str
    """``source->target``."""
    objectives: DrillObjectives
    limits: DrillLimits
    cut: Literal["planned", "lost"] = "planned"
    hold_minutes: float = 0.0
    stay: bool = False
    clients_cut: str = ""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of a bubble's clients; empty: drkit's own."""


def new_drill_id(token: str, clock: Millis = wall_ms) -> str:
    """Return the id of a new drill: its time in UTC and a random part, as ``20261128t060000-1a2b3c``.

    :param token: random hexadecimal digits; the first six are used
    """
    began = datetime.fromtimestamp(clock() / 1000, UTC)
    return f"{began:%Y%m%dt%H%M%S}-{token[:6]}"


def plan_drill(settings: Settings, drill: DrillSettings, drill_id: str) -> DrillPlan:
    """Return the plan of a configured drill.

    :raises ConfigError: its flow is not in the file, or not named where there are several
    """
    return DrillPlan(
        id=drill_id,
        name=drill.name,
        kind=drill.kind,
        flow=settings.one_flow(drill.flow).name,
        objectives=_objectives(settings, drill.kind, drill.objectives),
        limits=drill.limits,
        cut=drill.cut,
        hold_minutes=drill.hold_minutes,
        stay=drill.stay,
        clients_cut=drill.clients_cut,
        client=drill.client,
    )


def plan_kind(settings: Settings, kind: DrillKind, flow: FlowSettings, drill_id: str) -> DrillPlan:
    """Return the plan of a drill without a ``[[drills]]`` table, at the defaults of its kind."""
    objectives = _objectives(settings, kind, DrillObjectives())
    return DrillPlan(
        id=drill_id, name=kind, kind=kind, flow=flow.name, objectives=objectives, limits=DrillLimits()
    )


def _objectives(settings: Settings, kind: DrillKind, objectives: DrillObjectives) -> DrillObjectives:
    if kind == "translation" or objectives.rpo_seconds is not None:
        return objectives
    return objectives.model_copy(update={"rpo_seconds": settings.failover.rpo_seconds})
