"""What is created after a switchover has compared both sides, a topic or a partition, is not forgotten."""

from __future__ import annotations

from contextlib import closing

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.fence import FenceStep
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from drkit.topic_sync.rules import refuse_promoted
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill, producer, put
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
    settings, flow = world.settings, world.settings.flows[0]
    with closing(PairedCollector(settings, flow, groups=False)) as collector:
        [found] = [each for each in collector.read_pair().topics if each.topic == topic]
    assert (found.state, found.why) == (PairState.UNPROTECTED, f"{flow.target} lacks 1 partition of it")


def replicate_again(world: World, topic: str) -> None:
    """Copy a topic that the replicator of a test, which lists topics once, does not know."""
    world.stop_replicating()
    world.replicate()
    world.copied([topic])


class LateTopic(Step):
    """Before a step, a topic is created on the source, and a client writes there."""

    name: StepName = StepName.FENCE

    def __init__(self, step: Step, world: World, topic: str, *, copied: bool) -> None:
        self.name, self._step = step.name, step
        self._world, self._topic, self._copied = world, topic, copied

    def plan(self, context: Context) -> list[StepEffect]:
        return self._step.plan(context)

    def run(self, context: Context) -> StepResult:
        world = self._world
        world.create(world.source, self._topic, 1, {"retention.ms": "-1"})
        fill(world.source, self._topic, 20)
        if self._copied:
            replicate_again(world, self._topic)
        return self._step.run(context)

    def announce(self, context: Context, *, begun: bool) -> None:
        self._step.announce(context, begun=begun)

    def prove(self, context: Context) -> StepResult:
        return self._step.prove(context)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("before", "copied"),
    [(StepName.FENCE, True), (StepName.TRANSLATE, False), (StepName.OPEN, True), (StepName.OPEN, False)],
)
def test_a_topic_that_is_created_meanwhile_is_copied_on_and_moves_later(
    world_factory: WorldFactory,
    source: LocalCluster,
    target: LocalCluster,
    before: StepName,
    copied: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    world = world_factory(source, target)
    topic, _ = world.copy_orders()
    late, every = world.name("late"), all_steps()
    steps = {**every, before: LateTopic(every[before], world, late, copied=copied)}
    with world.desk(steps=steps) as desk:
        report = desk.begin([], RunRequest(planned=True))
    assert report["state"] == "done"
    remains = any(f"topic {late} remains" in note for step in report["steps"] for note in step["notes"])
    assert remains is not copied
    fill(world.source, late, 20, first=100)
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        refuse_promoted(world.settings.flows[0], state.records)  # as drkit replicate does
    replicate_again(world, late)
    with world.desk() as desk:
        report = desk.begin([], RunRequest(planned=True))
    assert report["state"] == "done"
    assert list(report["topics"]) == [late]
    assert answers(world.target, topic, [b"x"]) == answers(world.target, late, [b"y"]) == [None]
