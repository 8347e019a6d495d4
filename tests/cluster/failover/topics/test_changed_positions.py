"""Positions that change on the old primary after TRANSLATE are named: the target has the earlier ones."""

from __future__ import annotations

import json

import pytest

from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.opening import OpenStep
from drkit.model import TopicPartition
from tests.support.failover.world import World
from tests.support.flows.produce import fill


class ChangedBefore(OpenStep):
    """One group is set back and another one commits in one more partition, before OPEN."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(self, context: Context) -> StepResult:
        first, second = (TopicPartition(self.world.name("orders"), p) for p in (0, 1))
        self.world.commit(self.world.source, self.world.name("back"), {first: 3})
        self.world.commit(self.world.source, self.world.name("wide"), {first: 7, second: 4})
        return super().run(context)


@pytest.mark.wide
def test_a_position_that_is_set_back_or_new_after_translate_is_named(world: World) -> None:
    topic, back, wide = (world.name(n) for n in ("orders", "back", "wide"))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    fill(world.source, topic, 40)
    for group in (back, wide):
        world.commit(world.source, group, {first: 5})
    world.replicate()
    world.copied([topic], {back: None, wide: None})
    with world.desk(steps={**all_steps(), OpenStep.name: ChangedBefore(world)}) as desk:
        report = desk.begin([], RunRequest(planned=True))
    assert (report["state"], report["groups"]["repeats"]) == ("done", {wide: 2}), report
    assert world.committed(world.target, back)[first].offset == 5
    assert second not in world.committed(world.target, wide)
    notes, changed = json.dumps(report["steps"]), f"changed on {world.source.alias} after TRANSLATE"
    assert f"group {back} {changed}: {first} was set back from 5 to 3" in notes
    assert f"group {wide} {changed}: it first committed in {second}, and has no position there" in notes
