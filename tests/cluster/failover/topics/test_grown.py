"""A topic gets a partition after a switchover has compared both sides: its records are not forgotten."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.fence import FenceStep
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.produce import fill, producer, put
from tests.support.waiting import eventually


class LateFence(FenceStep):
    """Before the fence is in effect, the topic grows, and a client writes to the new partition."""

    def __init__(self, world: World, topic: str) -> None:
        self._world, self._topic = world, topic

    def run(self, context: Context) -> StepResult:
        world = self._world
        world.grow(world.source, self._topic, 3)
        eventually(lambda: len(world.offsets(world.source, self._topic)) == 3, what="the new partition")
        out = producer(world.source)
        put(out, self._topic, b"late", b"late", partition=2)
        assert out.flush(30) == 0
        return super().run(context)


@pytest.mark.wide
def test_a_partition_that_the_standby_does_not_have_holds_a_switchover(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    # The replicator looks for new partitions later than the switchover waits.
    world = world_factory(source, target, refresh_topics_interval_seconds=600)
    world.failover_fields["drain_seconds"] = 2.0
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    world.replicate()
    world.copied([topic])
    steps = {**all_steps(), StepName.FENCE: LateFence(world, topic)}
    with (
        world.desk(steps=steps) as desk,
        pytest.raises(Refused, check=coded("switchover_incomplete")) as held,
    ):
        desk.begin([], RunRequest(planned=True))
    assert f"{topic}-2" in held.value.evidence
    with world.desk() as desk:
        assert desk.abort("for the test")["state"] == "aborted"
