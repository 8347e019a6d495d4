"""A bubble between the clusters of production, under load: its result, and what it leaves."""

from __future__ import annotations

from contextlib import suppress
import json
import subprocess
import sys
import threading
from typing import Any
import uuid

import pytest

from drkit.config import Settings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.bubble import run_bubble
from drkit.drill.bubble_result import BubbleResult
from drkit.drill.cleanup import clean_up
from drkit.drill.inventory import ClusterInventory, InventoryPart, read_inventory
from drkit.drill.plan import DrillPlan, new_drill_id
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import CANARY_TOPIC, drill_topic, drills_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.failover.truth import Load
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually


def plan_of(settings: Settings, **more: Any) -> DrillPlan:
    return DrillPlan(
        id=new_drill_id(uuid.uuid4().hex),
        name="weekly",
        kind="bubble",
        flow=settings.flows[0].name,
        limits=DrillLimits(),
        objectives=DrillObjectives(rpo_seconds=30, rto_seconds=60),
        **more,
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


def described(result: BubbleResult) -> Any:
    return result.verdict, result.reasons, [(c.name, c.offences) for c in result.checks if c.offences]


@pytest.mark.wide
def test_a_bubble_beside_production(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    with Load(world.source, production.topics, per_second=200) as load:
        result = run_bubble(settings, settings.flows[0], plan)
    assert result.verdict == "pass", described(result)
    production.same(before, production.inventories())
    assert load.count > 500
    assert not load.refused
    world.copied(production.topics)
    world.protected(production.topics)


BUBBLE = """
import json, sys
from drkit.config import Settings
from drkit.drill.bubble import run_bubble
from drkit.drill.plan import plan_from_json
given = json.load(sys.stdin)
settings = Settings.model_validate(given["settings"])
run_bubble(settings, settings.flows[0], plan_from_json(given["plan"]), lambda *said: print(*said, flush=True))
"""


@pytest.mark.wide
@pytest.mark.parametrize("step", ["STAGE", "STEADY", "FAILOVER", "CHECK", "CLEAN"])
def test_the_cleanup_of_a_killed_bubble_leaves_nothing(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, step: str
) -> None:
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    given = {"settings": json.loads(settings.model_dump_json()), "plan": plan.to_json()}
    with subprocess.Popen([sys.executable, "-c", BUBBLE], stdin=-1, stdout=-1, text=True) as drill:
        assert drill.stdin is not None
        assert drill.stdout is not None
        drill.stdin.write(json.dumps(given))
        drill.stdin.close()
        assert f"{step} begun\n" in iter(drill.stdout.readline, "")
        with suppress(subprocess.TimeoutExpired):
            drill.wait(0.5)  # into the step
        with pytest.raises(Refused, match="a drill of this flow is running"):
            clean_up(settings, settings.flows[0])
        drill.kill()
    foreign = drill_topic(plan.id, "foreign")
    world.create(world.source, foreign, 1, {})
    assert clean_up(settings, settings.flows[0]) == {plan.id: []}
    assert clean_up(settings, settings.flows[0]) == {}
    assert not world.topic(world.source, foreign).error, "a topic that the record does not name was deleted"
    delete_topics(Cluster.connect(world.source), [foreign])
    eventually(lambda: world.topic(world.source, foreign).error != 0, 30, "the foreign topic is gone")
    production.same(before, production.inventories())


@pytest.mark.wide
@pytest.mark.parametrize("step", ["STEADY", "FAILOVER", "CHECK"])
def test_a_real_failover_ends_a_bubble(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, step: str
) -> None:
    production = Production(world_factory(source, target))
    world = production.world
    world.failover_fields |= {"repoint": [], "fence": {}}
    settings = world.settings
    reports: list[dict[str, Any]] = []

    def fail_over() -> None:
        with world.desk() as service:
            reports.append(service.begin([], RunRequest(planned=True, clients_cut="test")))

    real = threading.Thread(target=fail_over)

    def told(name: str, state: str) -> None:
        if (name, state) == (step, "begun"):
            real.start()

    result = run_bubble(settings, settings.flows[0], plan_of(settings), told)
    real.join()
    assert reports[0]["state"] == "done"
    assert (result.verdict, result.cleanup_owed) == ("aborted", True), described(result)
    assert result.reasons == (f"production failover {reports[0]['run']} began",)
    assert [entry["step"] for entry in result.steps[-2:]] == [step, "JUDGE"]
    assert clean_up(settings, settings.flows[0]) == {result.plan.id: []}
    for cluster in (world.source, world.target):
        left = {name for name in topic_names(Cluster.connect(cluster)) if result.plan.id in name}
        assert not left


@pytest.mark.wide
def test_a_bubble_of_a_lost_source(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    production = Production(world_factory(source, target))
    settings = production.world.settings
    before = production.inventories()
    result = run_bubble(settings, settings.flows[0], plan_of(settings, cut="lost"))
    assert result.verdict == "pass", described(result)
    assert result.loss is not None
    assert result.loss.records > 0
    assert result.failover is not None
    assert not result.failover["fence"]["proven"]
    production.same(before, production.inventories())
