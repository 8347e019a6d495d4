"""A failover from its beginning to its end, the primary alive: what it leaves behind, and what comes after
it.
"""

from __future__ import annotations

from bisect import bisect_left

import pytest

from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.group_offsets import CommitOffsetsStep, TranslateStep
from drkit.flow_state.records import RoleRecord
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, RunState
from drkit.kafka.raw import RawError
from drkit.model import TopicPartition
from tests.support.errors import coded, made
from tests.support.failover.world import World
from tests.support.flows.produce import fill, fill_transactions


def prepared(world: World) -> tuple[str, dict[str, dict[TopicPartition, int]]]:
    """A topic with plain records and transactions, copied; groups at different offsets."""
    topic = world.name("orders")
    world.create(
        world.source, topic, 3, {"message.timestamp.type": "CreateTime", "max.message.bytes": "2000000"}
    )
    fill_transactions(world.source, [topic], 60, most=9)
    fill(world.source, topic, 200)
    ends = world.offsets(world.source, topic)
    groups = {
        world.name("far"): {TopicPartition(topic, p): 3 for p in ends},
        world.name("mid"): {TopicPartition(topic, p): end // 2 for p, end in ends.items()},
        world.name("end"): {TopicPartition(topic, p): end for p, end in ends.items()},
    }
    for group, offsets in groups.items():
        world.commit(world.source, group, offsets)
    world.replicate()
    world.copied([topic], groups)
    return topic, groups


class Stumbling(TranslateStep):
    """Meets a broker that goes, twice."""

    def __init__(self) -> None:
        self.met = [RawError("a broker went"), made(ClusterUnreachable, "no answer")]

    def run(self, context: Context) -> StepResult:
        done = super().run(context)
        if self.met:
            raise self.met.pop()
        return done


class ReadsOn(CommitOffsetsStep):
    """A consumer on the old primary commits once more after its group's position was read."""

    def __init__(self, world: World, group: str, topic: str) -> None:
        self.world, self.group, self.at = world, group, TopicPartition(topic, 0)

    def run(self, context: Context) -> StepResult:
        done = super().run(context)
        self.world.commit(self.world.source, self.group, {self.at: 10})
        return done


@pytest.mark.wide
def test_a_failover_moves_groups_to_their_next_records(world: World) -> None:
    topic, groups = prepared(world)
    stumbling, reads_on = Stumbling(), ReadsOn(world, world.name("far"), topic)
    with world.desk(steps={**all_steps(), stumbling.name: stumbling, reads_on.name: reads_on}) as desk:
        report = desk.begin([world.name("mid")], RunRequest())
    assert not stumbling.met, "the step was repeated"
    assert report["state"] == "done", report
    assert report["groups"]["repeats"] == {world.name("far"): 7}, "A11: what it read on is said"
    assert report["topics"] == {topic: topic}
    assert sorted(report["groups"]["moved"]) == sorted(groups)
    theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
    for group, offsets in groups.items():
        there = world.committed(world.target, group)
        for at, upstream in offsets.items():
            first = bisect_left([s.offset for s in theirs[at.partition]], upstream)
            now = bisect_left([s.offset for s in ours[at.partition]], there[at].offset)
            rest = [s.content for s in theirs[at.partition][first:]]
            assert [s.content for s in ours[at.partition][now:]] == rest, (group, at)
    run = world.run_log()
    assert run.state is RunState.DONE
    assert not violations(run)
    assert [s for s in ORDER if s in run.results] == list(ORDER)
    assert world.state()[RoleRecord.key(topic)]["role"] == "promoted"
    with world.desk() as desk, pytest.raises(Refused, check=coded("promoted")):
        desk.begin([world.name("mid")], RunRequest())
