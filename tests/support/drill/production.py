"""A protected flow of production, and bubbles beside it."""

from __future__ import annotations

from typing import Any
import uuid

from drkit.config import Settings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.history import DrillHistory, clean_up
from drkit.drill.inventory import ClusterInventory, InventoryPart, read_inventory
from drkit.drill.plan import DrillPlan, new_drill_id
from drkit.drill.report import DrillReport, check_report
from drkit.drill.run_drill import run_drill
from drkit.drill.steps import DrillOptions
from drkit.flow_state.names import CANARY_TOPIC, drills_topic
from drkit.model import TopicPartition
from tests.support.failover.world import World
from tests.support.flows.produce import fill

_LIMIT_SECONDS = 900.0
"""A busy machine is no reason to abort."""


def plan_of(settings: Settings, **more: Any) -> DrillPlan:
    return DrillPlan(
        id=new_drill_id(uuid.uuid4().hex),
        name="weekly",
        kind="bubble",
        flow=settings.flows[0].name,
        **{
            "limits": DrillLimits(seconds=_LIMIT_SECONDS),
            "objectives": DrillObjectives(rpo_seconds=30, rto_seconds=60),
            **more,
        },
    )


class Production:
    """A protected flow under load, with tripwires on its endpoint file and its stop hook."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.endpoint, self.stopped = world.folder / "endpoint.json", world.folder / "stopped"
        world.folder.mkdir(parents=True)
        self.endpoint.write_text("untouched")
        world.failover_fields |= {
            "repoint": [{"kind": "file", "path": str(self.endpoint)}],
            "fence": {"stop_command": ["/usr/bin/touch", str(self.stopped)]},
        }
        self.topics = [world.name("orders"), world.name("pay")]
        self.group = world.name("idle")
        for topic in self.topics:
            world.create(world.source, topic, 2, {"retention.ms": "-1"})
            fill(world.source, topic, 50)
        world.commit(world.source, self.group, {TopicPartition(self.topics[0], p): 7 + p for p in range(2)})
        world.replicate()
        world.copied(self.topics, {self.group: None})
        world.protected(self.topics)

    def inventories(self) -> dict[str, ClusterInventory]:
        sides = {"source": self.world.source, "target": self.world.target}
        return {side: read_inventory(cluster) for side, cluster in sides.items()}

    def same(self, before: dict[str, ClusterInventory], after: dict[str, ClusterInventory]) -> None:
        for side, inventory in before.items():
            assert not inventory.unknown
            assert not after[side].unknown
            for part in (InventoryPart.TOPIC, InventoryPart.GROUP, InventoryPart.ACL, InventoryPart.BROKER):
                residue = {CANARY_TOPIC, drills_topic(self.world.source.alias, self.world.target.alias)}
                earlier, later = (
                    {name: facts for name, facts in each.items[part].items() if name not in residue}
                    for each in (inventory, after[side])
                )
                assert later == earlier, (side, part)
        assert self.endpoint.read_text() == "untouched"
        assert not self.stopped.exists()


def run(settings: Settings, plan: DrillPlan, **more: Any) -> DrillReport:
    history = DrillHistory.of(settings)
    with history.lock():
        report = run_drill(settings, plan, history, DrillOptions(**more))
    assert check_report(report) == []
    return report


def cleaned(settings: Settings) -> dict[str, list[str]]:
    return clean_up(settings, settings.flows[0], DrillHistory.of(settings))
