"""The gate of a bubble: production could fail over now, and what a drill makes can be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drkit.config import FlowSettings, Settings
from drkit.drill.entries.cleanup import clean_up
from drkit.drill.entries.history import DrillHistory
from drkit.drill.entry import MadeItem
from drkit.drill.inventory import ClusterInventory, InventoryPart
from drkit.drill.plan import DrillPlan
from drkit.drill.readiness import refuse_unprotected
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import broker_config
from drkit.status.readiness_look import read_disks

_REASON: Final = "drill"
_PAUSED: Final = "failover-paused"
_DELETABLE: Final = "delete.topic.enable"


class DrillSkipped(Refused):
    """Failovers are paused, so that no drill is to run either."""


def pass_gate(settings: Settings, flow: FlowSettings, history: DrillHistory) -> list[str]:
    """Clean up after earlier drills, check that production could fail over; return the drills cleaned up.

    :param settings: of production
    :param flow: of production
    :raises DrillSkipped: failovers are paused
    :raises Refused: a cleanup failed, or production could not fail over
    :raises DrkitError: a cluster does not answer
    """
    cleaned = clean_up(settings, flow, history)
    for problem in (problem for problems in cleaned.values() for problem in problems):
        raise Refused("drill_cleanup_owed", where=flow.name, evidence=problem)
    with FailoverService(settings, flow) as service:
        rehearsal = service.rehearse([], RunRequest(planned=True, clients_cut=_REASON))
    for gate, refusal in rehearsal.refusals:
        if gate == _PAUSED:
            hint = "resume them, then run the drill: drkit watch resume"
            raise DrillSkipped("failovers_paused", where=flow.name, evidence=refusal.in_short, hint=hint)
        raise refusal
    refuse_unprotected(settings, flow)
    for alias in (flow.source, flow.target):
        deletable = broker_config(Cluster.connect(settings.cluster(alias))).get(_DELETABLE)
        if deletable is not None and deletable.value == "false":
            raise Refused("drill_topics_not_deleted", where=alias, evidence=f"{_DELETABLE} = false")
    return sorted(cleaned)


def refuse_no_room(settings: Settings, flow: FlowSettings, plan: DrillPlan) -> str:
    """Check that each broker of the standby has room for all that a bubble may write; return the least.

    A broker has at most one replica of a partition, so no broker gets more than the limits of the plan allow.

    :raises Refused: a broker has less
    :raises DrkitError: the standby does not answer
    """
    most = round(plan.limits.bytes_per_second * plan.limits.seconds)
    room: dict[int, int] = {}
    for disk in read_disks(settings.cluster(flow.target)) or ():
        room[disk.broker] = max(room.get(disk.broker, 0), disk.free)
    for broker, free in room.items():
        if free < most:
            where, evidence = (
                f"broker {broker} of {flow.target}",
                f"{free:,} bytes are free, it may write {most:,}",
            )
            raise Refused("drill_no_room", where=where, evidence=evidence)
    return (
        f"{min(room.values()) / 1e9:,.1f} GB free on the standby" if room else "room on the standby unknown"
    )


def refuse_existing(inventory: ClusterInventory, made: Iterable[MadeItem]) -> None:
    """Refuse if a cluster has what a drill is about to make, or does not say.

    :param made: on this cluster
    :raises Refused: it has, or does not
    """
    for item in made:
        existing = inventory.items.get(InventoryPart(item.kind))
        if existing is None:
            raise Refused(
                "drill_list_refused",
                where=item.side,
                evidence=f"no answer about {item.kind}s",
                side=item.side,
            )
        if item.name in existing:
            raise Refused("drill_leftover", where=item.side, evidence=item.name, kind=item.kind)
