"""A bubble between the clusters of production, under load: its result, and what it leaves."""

from __future__ import annotations

from contextlib import suppress
import json
import subprocess
import sys
import threading
from typing import Any
import uuid

from pydantic import TypeAdapter
import pytest

from drkit.config import Settings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.bubble.run_bubble import SILENT, DrillProgress
from drkit.drill.entries.cleanup import clean_up
from drkit.drill.entries.history import DrillHistory
from drkit.drill.inventory import ClusterInventory, InventoryPart, read_inventory
from drkit.drill.plan import DrillPlan, new_drill_id
from drkit.drill.report.model import DrillReport, check_report
from drkit.drill.runs.run_drill import DrillOptions, run_drill
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


def run(settings: Settings, plan: DrillPlan, progress: DrillProgress = SILENT) -> DrillReport:
    history = DrillHistory.of(settings)
    with history.lock():
        report = run_drill(settings, plan, history, DrillOptions(progress=progress))
    assert check_report(report) == []
    return report


def cleaned(settings: Settings) -> dict[str, list[str]]:
    return clean_up(settings, settings.flows[0], DrillHistory.of(settings))


@pytest.mark.wide
def test_a_bubble_beside_production(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    with Load(world.source, production.topics, per_second=200) as load:
        report = run(settings, plan)
    assert report.verdict == "pass", report.reasons
    production.same(before, production.inventories())
    assert load.count > 500
    assert not load.refused
    world.copied(production.topics)
    world.protected(production.topics)


BUBBLE = """
import json, sys
from pydantic import TypeAdapter
from drkit.config import Settings
from drkit.drill.bubble.run_bubble import DrillProgress
from drkit.drill.entries.history import DrillHistory
from drkit.drill.plan import DrillPlan
from drkit.drill.runs.run_drill import DrillOptions, run_drill
given = json.load(sys.stdin)
settings = Settings.model_validate(given["settings"])
history = DrillHistory.of(settings)
progress = DrillProgress(begun=lambda step: print(step, flush=True))
with history.lock():
    plan = TypeAdapter(DrillPlan).validate_python(given["plan"])
    run_drill(settings, plan, history, DrillOptions(progress=progress))
"""


@pytest.mark.wide
@pytest.mark.parametrize("step", ["CREATE", "STEADY", "FAILOVER", "CHECK", "CLEAN"])
def test_the_cleanup_of_a_killed_bubble_leaves_nothing(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, step: str
) -> None:
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    given = {
        "settings": json.loads(settings.model_dump_json()),
        "plan": TypeAdapter(DrillPlan).dump_python(plan, mode="json"),
    }
    with subprocess.Popen([sys.executable, "-c", BUBBLE], stdin=-1, stdout=-1, text=True) as drill:
        assert drill.stdin is not None
        assert drill.stdout is not None
        drill.stdin.write(json.dumps(given))
        drill.stdin.close()
        assert f"{step}\n" in iter(drill.stdout.readline, "")
        with suppress(subprocess.TimeoutExpired):
            drill.wait(0.5)  # into the step
        with pytest.raises(Refused, match="a drill of this flow is running"):
            cleaned(settings)
        drill.kill()
    foreign = drill_topic(plan.id, "foreign")
    world.create(world.source, foreign, 1, {})
    assert cleaned(settings) == {plan.id: []}
    assert cleaned(settings) == {}
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

    def begun(name: str) -> None:
        if name == step:
            real.start()

    report = run(settings, plan_of(settings), DrillProgress(begun=begun))
    real.join()
    assert reports[0]["state"] == "done"
    assert report.verdict == "aborted", report.reasons
    assert report.reasons == (f"production failover {reports[0]['run']} began",)
    assert report.steps[-1].name == step
    assert [entry.cleanup_owed for entry in DrillHistory.of(settings).entries()] == [True]
    assert cleaned(settings) == {report.id: []}
    for cluster in (world.source, world.target):
        left = {name for name in topic_names(Cluster.connect(cluster)) if report.id in name}
        assert not left


@pytest.mark.wide
def test_a_bubble_of_a_lost_source(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    production = Production(world_factory(source, target))
    settings = production.world.settings
    before = production.inventories()
    report = run(settings, plan_of(settings, cut="lost"))
    assert report.verdict == "pass", report.reasons
    assert report.rpo is not None
    assert report.rpo.records
    production.same(before, production.inventories())
