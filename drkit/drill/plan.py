"""The plan of one drill, and the settings of a bubble: a whitelist of production's. Pure.

A bubble is a failover of another flow between the same clusters. What is not taken over here cannot act in
it: production's endpoint, its hooks, its observers. A new setting reaches no drill unnoticed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
import re
from typing import Any, Final

from pydantic import BaseModel

from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FailoverSettings, FlowSettings, RepointSettings, Settings
from drkit.config.tables.drills import DrillKind, DrillSettings
from drkit.config.tables.fence import FenceSettings
from drkit.flow_state.names import drill_alias, drill_group, drill_topic
from drkit.journal.file import folder_of

DRILL_ID: Final = re.compile(r"\d{8}t\d{6}-[0-9a-f]{6}")
"""It has no dot: names of topics and groups have the id between dots."""


class DrillPlan(DrillSettings):
    """The plan of one drill: its settings, with what they leave to others."""

    id: str
    """By time, and unique: see :func:`new_drill_id`."""
    flow: str
    """``source->target``."""
    cron: str = ""


def new_drill_id(token: str, clock: Millis = wall_ms) -> str:
    """Return the id of a new drill: its time in UTC and a random part, as ``20261128t060000-1a2b3c``.

    :param token: random hexadecimal digits; the first six are used
    """
    began = datetime.fromtimestamp(clock() / 1000, UTC)
    return f"{began:%Y%m%dt%H%M%S}-{token[:6]}"


def plan_drill(settings: Settings, drill: DrillSettings, drill_id: str) -> DrillPlan:
    """Return the plan of a configured drill. Raises ConfigError: the file does not have its flow."""
    objectives = drill.objectives
    if drill.kind != "translation" and objectives.rpo_seconds is None:
        objectives = objectives.model_copy(update={"rpo_seconds": settings.failover.rpo_seconds})
    own = {"id": drill_id, "flow": settings.one_flow(drill.flow).name, "objectives": objectives}
    return DrillPlan.model_construct(**(dict(drill) | own))


def plan_kind(settings: Settings, kind: DrillKind, flow: FlowSettings, drill_id: str) -> DrillPlan:
    """Return the plan of a drill without a ``[[drills]]`` table, at the defaults of its kind."""
    drill = DrillSettings.model_construct(name=kind, kind=kind, flow=flow.name, cron="")
    return plan_drill(settings, drill, drill_id)


_ANY: Final = "*"
_VERIFY_SECONDS: Final = 3.0
"""Groups without members never work on the target, so VERIFY always waits that long."""


TAKEN: Final[dict[type[BaseModel], str]] = {
    Settings: "control",
    ClusterSettings: """
        bootstrap_servers client applications own_principal allow_everyone_if_no_acl_found
    """,
    FlowSettings: """
        target replication_factor checkpoints_topic_replication_factor
        source_consumer source_admin target_producer target_admin
    """,
    FenceSettings: "means canary seconds transaction_wait_seconds freeze_seconds",
}
"""Table of the configuration → the settings that a bubble has as production does.

All others are set below, or at drkit's default."""


def bubble_settings(settings: Settings, flow: FlowSettings, plan: DrillPlan) -> Settings:
    """Return the settings under which a bubble runs. Changes nothing.

    :param settings: of production
    :param flow: of production, whose clusters the bubble uses
    """
    alias = drill_alias(flow.source)
    folder = drill_folder(settings, plan.id)
    source, target = settings.cluster(flow.source), settings.cluster(flow.target)
    failover = FailoverSettings(
        rpo_seconds=plan.objectives.rpo_seconds or settings.failover.rpo_seconds,
        journal_folder=str(folder / "journal"),
        verify_seconds=_VERIFY_SECONDS,
        fence=FenceSettings(**_taken(settings.failover.fence)),
        repoint=(RepointSettings(kind="file", path=str(endpoint_file(settings, plan.id))),),
    )
    # Without validation, which would read the files of the control key again.
    return Settings.model_construct(
        **_taken(settings),
        clusters={alias: _cluster(source, alias), flow.target: _cluster(target, flow.target)},
        flows=(_bubble_flow(flow, plan),),
        failover=failover,
    )


def drill_folder(settings: Settings, drill_id: str) -> Path:
    """Return the folder of this machine with the files of a drill: an absolute path."""
    return folder_of(settings.failover.journal_folder).absolute() / "drills" / drill_id


def endpoint_file(settings: Settings, drill_id: str) -> Path:
    """Return the endpoint file that the clients of a bubble follow."""
    return drill_folder(settings, drill_id) / "endpoint.json"


def _cluster(production: ClusterSettings, alias: str) -> ClusterSettings:
    return ClusterSettings(alias=alias, **_taken(production)).with_control(production.control)


def _bubble_flow(flow: FlowSettings, plan: DrillPlan) -> FlowSettings:
    return FlowSettings(
        **_taken(flow),
        source=drill_alias(flow.source),
        topics=(_all_of(drill_topic(plan.id, _ANY)),),
        topics_exclude=(),
        groups=(_all_of(drill_group(plan.id, _ANY)),),
        groups_exclude=(),
        naming="identity",
        opposite_flows=(),
        tasks=1,
        buckets=2,
        throttle_bytes_per_second=plan.limits.bytes_per_second,
        sync_topic_acls=False,
        emit_offset_syncs=False,
        follow_group_commits=False,  # five groups are asked for; production's log of commits stays unread
        emit_heartbeats=False,
        heartbeats_replication=False,
    )


def _all_of(name: str) -> str:
    return re.escape(name).replace(r"\*", ".*")


def _taken(production: BaseModel) -> dict[str, Any]:
    return {name: getattr(production, name) for name in TAKEN[type(production)].split()}
