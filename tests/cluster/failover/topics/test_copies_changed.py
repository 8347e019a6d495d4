"""A copy that loses records while a switchover runs is not opened as if nothing were lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import Step, StepResult
from drkit.failover.runs import all_steps
from drkit.journal.machine import StepName
from drkit.model import TopicPartition
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill

Change = Callable[[World, str], None]


class ChangedAfter:
    """A step after which a copy is changed."""

    def __init__(self, step: Step, change: Callable[[], None]) -> None:
        self.name, self.plan, self.announce, self.run = step.name, step.plan, step.announce, step.run
        self.undo, self._prove, self._change = step.undo, step.prove, change

    def prove(self, context: Context) -> StepResult:
        done = self._prove(context)
        self._change()
        return done


def recreate(world: World, topic: str) -> None:
    world.delete(world.target, topic)
    world.create(world.target, topic, 1, {})


def trim(world: World, topic: str) -> None:
    world.delete_records(topic, 0, 12, world.target)


def trim_all(world: World, topic: str) -> None:
    world.delete_records(topic, 0, 20, world.target)


@pytest.mark.wide
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("step", "change", "reads", "again"),
    [
        (StepName.DRAIN, recreate, False, "switchover_incomplete"),
        (StepName.COMMIT_OFFSETS, recreate, True, "no_exact_position"),
        (StepName.COMMIT_OFFSETS, trim, True, "standby_begins_later"),
        (StepName.COMMIT_OFFSETS, trim_all, True, "standby_begins_later"),
    ],
)
def test_a_copy_that_lost_records_meanwhile_is_not_opened(
    world: World, step: StepName, change: Change, again: str, *, reads: bool
) -> None:
    topic = world.name("orders")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    if reads:
        world.commit(world.source, world.name("shop"), {TopicPartition(topic, 0): 5})
    world.replicate()
    world.copied([topic], {world.name("shop"): None} if reads else {})
    world.protected([topic])
    steps = dict(all_steps())
    steps[step] = ChangedAfter(steps[step], lambda: change(world, topic))
    with world.desk(steps=steps) as desk, pytest.raises(Failed) as held:
        desk.begin([], RunRequest(planned=True))
    assert held.value.code == "copies_changed", held.value
    assert topic in held.value.evidence
    with world.desk() as desk, pytest.raises(Refused) as refused:
        desk.resume(RunRequest())
    assert refused.value.code == again, refused.value
    with world.desk() as desk:
        assert desk.abort("a test")["state"] == "aborted"
    assert answers(world.source, topic, [b"on the primary"]) == [None]
    assert len(world.records(world.source, topic)[0]) == 21
