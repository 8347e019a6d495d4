"""A switchover under the settings of a bubble, beside production that is told to copy everything of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
import json
import tempfile
from typing import Any
import uuid

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
import pytest

from drkit.config import Settings
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.plan import DrillPlan, bubble_settings, endpoint_file, new_drill_id
from drkit.drill.stage import BubbleStage
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.flow_state.names import drill_group, drill_topic, journal_topic, state_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually
from tests.support.warm import WarmProcess

EVERYTHING: dict[str, Any] = {"topics_exclude": [], "groups_exclude": []}


@contextmanager
def replicator(settings: Settings) -> Iterator[None]:
    with tempfile.TemporaryFile() as log:
        process = WarmProcess(
            "drkit.replicate.solo", stdin=settings.model_dump_json().encode(), out=log.fileno()
        )
        try:
            yield
            process.wait(20.0)  # the failover has fenced it
        finally:
            process.kill()
            process.wait()


def protected(settings: Settings, topic: str) -> None:
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:

        def is_protected() -> bool:
            pair = collector.look().pair
            return (
                [(t.topic, t.state) for t in pair.topics] == [(topic, PairState.PROTECTED)] if pair else False
            )

        eventually(is_protected, 90, f"{topic} alone is PROTECTED")


@pytest.mark.wide
def test_a_bubble_beside_production(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    tag = uuid.uuid4().hex[:8]
    patterns = [f"{tag}-.*", r"(mm2-)?drkit-drill\..*"]
    world = world_factory(source, target, tag=tag, topics=patterns, groups=patterns, **EVERYTHING)
    production = world.settings
    limits, objectives = DrillLimits(), DrillObjectives(rpo_seconds=30)
    plan = DrillPlan(
        id=new_drill_id(tag), name="weekly", kind="bubble", flow=production.flows[0].name, limits=limits,
        objectives=objectives,
    )  # fmt: skip
    bubble = bubble_settings(production, production.flows[0], plan)
    topic, group = drill_topic(plan.id, "orders"), drill_group(plan.id, "reader")
    own = world.name("orders")
    for name in (own, topic):
        world.create(world.source, name, 1, {})
        fill(world.source, name, 50)
    world.commit(world.source, group, {TopicPartition(topic, 0): 10})
    world.replicate()
    world.copied([own])
    assert world.topic(world.target, topic).error, "production has copied a topic of a drill"
    assert not world.committed(world.target, group)

    with replicator(bubble):
        protected(bubble, topic)
        eventually(lambda: world.committed(world.target, group), 60, "the group's position")
        with FailoverService(bubble, bubble.flows[0]) as service:
            report = service.begin([], RunRequest(planned=True))
    assert report["state"] == "done", report
    copies = [values(world.records(side, topic)[0]) for side in (world.source, world.target)]
    assert copies[0] == copies[1]
    assert world.committed(world.target, group)[TopicPartition(topic, 0)].offset == 10
    endpoint = json.loads(endpoint_file(production, plan.id).read_text())
    assert world.target.bootstrap_servers in json.dumps(endpoint)
    _production_is_as_before(world, own)


def _production_is_as_before(world: World, own: str) -> None:
    fill(world.source, own, 10, first=50)
    world.copied([own])
    world.protected([own])
    assert world.topic(world.target, journal_topic(world.source.alias)).error, "production has no journal"
    drills = state_topic(f"drkit-drill-{world.source.alias}")
    assert not world.topic(world.target, drills).error


STRICT_DEFAULTS = {
    "log.message.timestamp.before.max.ms": "86400000",
    "log.cleanup.policy": "compact",
    "message.max.bytes": "100000",
}
"""Defaults of a broker that topics of production override."""


@contextmanager
def broker_defaults(cluster: LocalCluster, defaults: dict[str, str]) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})

    def alter(operation: AlterConfigOpType) -> None:
        entries = [ConfigEntry(n, v, incremental_operation=operation) for n, v in defaults.items()]
        for node in admin.list_topics(timeout=10).brokers:
            broker = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=entries)
            for answer in admin.incremental_alter_configs([broker]).values():
                answer.result(10)

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


@pytest.mark.parametrize("name", STRICT_DEFAULTS)
def test_no_default_of_the_brokers_refuses_the_records_of_a_drill(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, name: str
) -> None:
    """A healthy pair passes: production overrides such a default, so it is no fault of its failover."""
    world = world_factory(source, target)
    settings, flow = world.settings, world.settings.flows[0]
    plan = DrillPlan(id=new_drill_id(uuid.uuid4().hex), name="weekly", kind="bubble", flow=flow.name)
    bubble = bubble_settings(settings, flow, plan)
    stage = BubbleStage(endpoint_file(settings, plan.id).parent, settings=bubble, plan=plan)
    with broker_defaults(source, {name: STRICT_DEFAULTS[name]}):
        try:
            stage.create_topics()
        finally:
            delete_topics(Cluster.connect(world.source), stage.topics)
