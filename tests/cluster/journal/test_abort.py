"""A failover is rolled back at each step that allows it, on real brokers; after OPEN that is refused."""

from __future__ import annotations

from collections.abc import Iterator
import signal

from confluent_kafka import Producer
import pytest

from drkit.flow_state.records import FenceSizesRecord, RoleRecord
from drkit.journal.entries import EntryKind
from drkit.journal.journal import NoRun
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, ROW, RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.circles import in_soak
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.truth import check_position, values
from tests.support.failover.world import World
from tests.support.flows.produce import answers
from tests.support.waiting import eventually

SIZE = "max.message.bytes"
ABORTABLE = [s for s in ORDER if ROW[s].abortable]
EFFECTS = (StepName.FENCE, StepName.FREEZE)
KILLS = [*((s, EntryKind.RESULT, False) for s in ABORTABLE), *((s, EntryKind.INTENT, True) for s in EFFECTS)]
"""Killed when a step had ended, and when an effect of it was about to be made."""
A_FEW = {
    (StepName.FENCE, EntryKind.RESULT, False),
    (StepName.FREEZE, EntryKind.INTENT, True),
    (ABORTABLE[-1], EntryKind.RESULT, False),
}
"""In ``make test``: right after the fence, inside FREEZE, and at the last moment."""


def fill(world: World, topic: str) -> None:
    """Records that are all different."""
    out = Producer({"bootstrap.servers": world.source.bootstrap_servers, "log_level": 0})
    for i in range(40):
        out.produce(topic, b"%s %d" % (topic.encode(), i), b"k%d" % i)
    assert out.flush(20) == 0


class Stage:
    """A world with a topic and a group for each failover that is rolled back."""

    def __init__(self, world: World, orchestrators: Orchestrators) -> None:
        self.world, self.orchestrators = world, orchestrators
        self._next = 0
        number = len(KILLS) + 3
        for i in range(number):
            topic = world.name(f"t{i}")
            world.create(world.source, topic, 2, {"retention.ms": "-1"})
            fill(world, topic)
            world.commit(world.source, world.name(f"g{i}"), self.middle(topic))
        world.replicate()
        world.copied(
            [world.name(f"t{i}") for i in range(number)], {world.name(f"g{i}"): None for i in range(number)}
        )
        done = self.run(None)
        assert done.error is None
        self.entries = world.run_log().entries
        self.aborted: list[str] = []

    def middle(self, topic: str) -> dict[TopicPartition, int]:
        ends = self.world.offsets(self.world.source, topic)
        return {TopicPartition(topic, p): e // 2 for p, e in ends.items()}

    def run(self, kill: Kill | None):
        """Begin the next failover, and kill its orchestrator."""
        self.number, self._next = self._next, self._next + 1
        return self.orchestrators.run(self.world.plain(), "begin", groups=[self.group], kill=kill)

    def at(self, step: StepName, kind: EntryKind, *, effect: bool = False) -> Kill:
        """After the last such entry."""
        found = [
            n for n, e in enumerate(self.entries) if (e.step, e.kind, bool(e.effect)) == (step, kind, effect)
        ]
        return Kill(found[-1], "after")

    @property
    def topic(self) -> str:
        return self.world.name(f"t{self.number}")

    @property
    def group(self) -> str:
        return self.world.name(f"g{self.number}")

    def written(self) -> str | None:
        """The name of the error that a producer of the primary gets."""
        return answers(self.world.source, self.topic, [b"after"])[0]


@pytest.fixture(scope="module")
def stage(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    world = World(source, target, tmp_path_factory.mktemp("journal"))
    try:
        with Orchestrators() as orchestrators:
            yield Stage(world, orchestrators)
    finally:
        world.close()


# P35
@pytest.mark.parametrize(("step", "kind", "effect"), [k if k in A_FEW else in_soak(*k) for k in KILLS])
def test_it_is_rolled_back(stage: Stage, step: StepName, kind: EntryKind, *, effect: bool):
    """The fence is lifted, the topic is the flow's again, positions are as before, the journal is closed."""
    world = stage.world
    before = kept(world, world.name(f"g{stage._next}"))
    assert stage.run(stage.at(step, kind, effect=effect)).killed
    fenced = ORDER.index(step) > ORDER.index(StepName.FENCE) or (step is StepName.FENCE and not effect)
    assert (stage.written() is not None) is fenced, "else there is nothing to lift"
    done = stage.orchestrators.run(world.plain(), "abort")
    assert done.error is None, done.error
    run = world.run_log()
    assert run.state is RunState.ABORTED
    assert not violations(run)
    assert run.undone == run.begun, "what was begun was undone"
    found = topic_configs(Cluster.connect(world.source), [stage.topic])[stage.topic][SIZE]
    assert not found.is_set_on_topic
    assert stage.written() is None, "producers work again"
    state = world.state()
    assert RoleRecord.key(stage.topic) not in state
    assert stage.topic not in state.get(FenceSizesRecord.KEY, {}).get("topics", {})
    assert kept(world, stage.group) == before, "positions on the standby are as they were"
    again = stage.orchestrators.run(world.plain(), "abort")
    assert again.error is not None
    assert again.error["kind"] == NoRun.__name__, "it is over"
    stage.aborted.append(stage.topic)


def test_positions_that_were_written_are_rolled_back(stage: Stage):
    """A group that went on after the last checkpoint: COMMIT_OFFSETS writes, and the abort restores."""
    world, replicator = stage.world, stage.world._replicator
    assert replicator is not None
    topic, group = world.name(f"t{stage._next}"), world.name(f"g{stage._next}")
    before = kept(world, group)
    replicator.send_signal(signal.SIGSTOP)
    try:
        world.commit(world.source, group, {at: o + 1 for at, o in stage.middle(topic).items()})
        begun = int(stage.at(StepName.COMMIT_OFFSETS, EntryKind.INTENT).entry)
        assert stage.run(Kill(begun + 2, "after")).killed
        assert [e.effect for e in world.run_log().entries[begun + 1 :]] == [f"groups from {group}"] * 2
        assert kept(world, group) == {at: o + 1 for at, o in before.items()}
        done = stage.orchestrators.run(world.plain(), "abort")
        assert done.error is None, done.error
        assert kept(world, group) == before
        assert world.run_log().undone == world.run_log().begun
    finally:
        replicator.send_signal(signal.SIGCONT)


def kept(world: World, group: str) -> dict[TopicPartition, int]:
    """The group's committed offsets on the standby."""
    return {at: c.offset for at, c in world.committed(world.target, group).items()}


# P35
def test_behind_open_it_is_refused_and_nothing_changes(stage: Stage):
    world = stage.world
    assert stage.run(stage.at(StepName.OPEN, EntryKind.INTENT)).killed
    entries = len(world.run_log().entries)
    late = stage.orchestrators.run(world.plain(), "abort")
    assert late.error is not None
    assert late.error["exit_code"] == 3
    assert late.error["code"] == "point_of_no_return"
    assert "OPEN" in late.error["error"]
    assert "OPEN has begun" in late.error["evidence"]
    assert "drkit failover --resume" in late.error["hint"]
    assert len(world.run_log().entries) == entries
    assert stage.orchestrators.run(world.plain(), "resume").error is None
    assert world.run_log().state is RunState.DONE
    assert RoleRecord.key(stage.topic) in world.state()


@pytest.mark.soak
def test_what_was_rolled_back_is_copied_again(stage: Stage):
    """After an abort the flow copies new records once and in order, and groups have their positions."""
    world = stage.world
    if not stage.aborted:
        pytest.skip("nothing was rolled back before")
    world.stop_replicating()
    world.replicate()
    world.copied(stage.aborted)
    for topic in stage.aborted:
        theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
        assert {p: values(r) for p, r in ours.items()} == {p: values(r) for p, r in theirs.items()}
        assert values(theirs[0])[-1] == b"after"
        there = world.committed(world.target, world.name("g" + topic.rpartition("-t")[2]))
        for at, stored in there.items():
            upstream = world.committed(world.source, world.name("g" + topic.rpartition("-t")[2]))[at].offset
            check_position(at, upstream, stored.offset, theirs[at.partition], ours[at.partition])


def test_a_failover_may_be_begun_again(stage: Stage):
    if not stage.aborted:
        pytest.skip("nothing was rolled back before")
    world, topic = stage.world, stage.aborted[-1]
    group = world.name("g" + topic.rpartition("-t")[2])
    eventually(lambda: len(world.committed(world.target, group)) == 2, what="positions")
    done = stage.orchestrators.run(world.plain(), "begin", groups=[group])
    assert done.error is None, done.error
    assert world.run_log().state is RunState.DONE
