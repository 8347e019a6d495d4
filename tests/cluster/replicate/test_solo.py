"""A replicator without Spark: how it ends."""

from __future__ import annotations

from drkit.flow_state.records import LeaseRecord
from tests.support.failover.fixtures import world as world
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flows.produce import fill


def test_sigterm_drains_the_task_and_releases_the_lease(world: World) -> None:
    topic = world.name("orders")
    world.create(world.source, topic, 1, {})
    fill(world.source, topic, 20)
    world.replicate()
    world.copied([topic])
    assert world.end_replicating() == 0, world.said()
    assert LeaseRecord.KEY not in world.state()
    fill(world.source, topic, 20, first=20)
    world.replicate()
    world.copied([topic])
    source, target = (world.records(cluster, topic) for cluster in (world.source, world.target))
    assert {p: values(r) for p, r in source.items()} == {p: values(r) for p, r in target.items()}
    assert "Traceback" not in world.said()
