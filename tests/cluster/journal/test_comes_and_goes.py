"""The primary dies, or comes back, between two steps of a failover: real brokers, a replicator at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.errors import Refused
from drkit.failover import pending_fences
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.service import FailoverService
from drkit.failover.steps.drain import DrainStep
from drkit.failover.steps.freeze import FreezeStep
from drkit.flow_state.kinds.run import LeaseRecord
from drkit.flow_state.records import FenceSizesRecord, PendingLift, RoleRecord
from drkit.journal import journal
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.local.ports import PortReservation
from drkit.model import TopicPartition
from tests.support.errors import coded, made
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import own_cluster
from tests.support.stored import flow_state
from tests.support.waiting import eventually


class Stage:
    """A primary of its own with two topics, each with a group; all copied."""

    def __init__(self, primary: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self.primary, self.folder = primary, folder
        self.world = world = World(primary, target, folder / "journal")
        self.topics = [world.name("held"), world.name("back")]
        self.groups = [world.name("one"), world.name("two")]
        for topic, group in zip(self.topics, self.groups, strict=True):
            world.create(world.source, topic, 2, {"retention.ms": "-1"})
            fill(world.source, topic, 50)
            world.commit(world.source, group, {TopicPartition(topic, 0): 3})
        world.replicate()
        world.copied(self.topics, dict.fromkeys(self.groups))
        self.file = written(world, folder)

    def write(self, topic: str, values: list[bytes]) -> list[bool]:
        """Whether the primary acknowledged each record."""
        return [error is None for error in answers(self.world.source, topic, values)]

    def is_back(self) -> None:
        self.primary.restart()
        eventually(lambda: self.world.offsets(self.world.source, self.topics[0]), what="the primary's return")


@pytest.fixture(scope="module")
def stage(target: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    primary = own_cluster("primary").start()
    made = None
    try:
        made = Stage(primary, target, tmp_path_factory.mktemp("stage"))
        yield made
    finally:
        if made is not None:
            made.world.close()
        primary.stop()


@pytest.fixture
def its_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that began a run is the test's own, which lives: here it counts as ended."""
    monkeypatch.setattr(journal, "lives_here", lambda _: False)


class HeldDrain(DrainStep):
    """Holds the run after FENCE, as a copy that does not become complete does."""

    def run(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        raise made(Refused, "held for the test")


def _runs_since(world: World, at_ms: int) -> bool:
    lease = flow_state(world.state()).get(LeaseRecord)
    return lease is not None and lease.renewed_ms > at_ms


def held_behind_the_fence(stage: Stage) -> None:
    world = stage.world
    world.stop_replicating()
    since = wall_ms()
    world.replicate()
    world.copied(stage.topics[:1])
    eventually(lambda: _runs_since(world, since), what="the new replicator's lease")
    steps = {**all_steps(), StepName.DRAIN: HeldDrain()}
    with stage.world.desk(steps=steps) as desk, pytest.raises(Refused, match="held for the test"):
        desk.begin([stage.groups[0]], RunRequest(planned=True))
    assert stage.write(stage.topics[0], [b"fenced"]) == [False]


def taken_back_from_a_dead_primary(stage: Stage) -> dict[str, Any]:
    """A switchover is held after FENCE, the primary dies, and it is aborted; returns the report."""
    held_behind_the_fence(stage)
    stage.primary.kill()
    with stage.world.desk() as desk:
        report = desk.abort("for the test")
    assert report["state"] == "aborted"
    return report


def faults(stage: Stage) -> dict[str, str]:
    [flow] = drkit(stage.file, "status").data["flows"]
    return {f["code"]: f["text"] for f in flow["faults"]}


@pytest.mark.wide
def test_a_link_that_is_cut_here_only_is_no_loss_of_the_primary(stage: Stage):
    """A3: the replicator copies on, and so would applications write on."""
    world, group = stage.world, stage.groups[0]
    plain = world.plain()
    closed = PortReservation()  # nothing listens there
    plain["clusters"][world.source.alias]["bootstrap_servers"] = f"127.0.0.1:{closed.reserve()}"
    settings = Settings.model_validate(plain)
    with FailoverService(settings, settings.flows[0]) as desk:
        with pytest.raises(Refused, check=coded("source_alive")) as caught:
            desk.begin([group], RunRequest(accept_data_loss="for the test"))
        assert "a heartbeat was written there" in caught.value.evidence
        assert "--despite-signs-of-life" in caught.value.hint
        known = RunRequest(accept_data_loss="for the test", despite_signs_of_life="for the test")
        assert desk.rehearse([group], known).refusals == []
    closed.release()
    assert stage.write(stage.topics[0], [b"still ours"]) == [True]


@pytest.mark.soak
@pytest.mark.usefixtures("its_process_ended")
def test_an_abort_that_meets_a_dead_primary_ends_and_its_lift_is_pending(stage: Stage):
    """A1: the switchover is held, the primary dies, it is rolled back; later the primary returns."""
    world, topic = stage.world, stage.topics[0]
    report = taken_back_from_a_dead_primary(stage)
    assert "is still fenced for 1 topic" in report["next"][0]
    assert not violations(world.run_log())
    pending = flow_state(world.state()).get(PendingLift)
    assert pending is not None
    assert pending.topics == (topic,)
    assert "drkit fence pay" in faults(stage)["fence_lift_pending"]
    with world.desk() as desk:
        assert pending_fences.shown(desk).lift is not None

    stage.is_back()
    assert stage.write(topic, [b"refused"]) == [False], "its fence outlives the restart"
    done = drkit(stage.file, "fence", "pay")
    assert (done.code, done.data["paid"]) == (0, True), done.err
    assert stage.write(topic, [b"again"]) == [True]
    state = flow_state(world.state())
    assert state.get(PendingLift) is None
    assert state.get(FenceSizesRecord) is None
    assert "fence_lift_pending" not in faults(stage)


@pytest.mark.wide
def test_a_primary_that_is_back_before_open_is_fenced_and_its_records_are_copied(stage: Stage):
    """A4: it was dead at FENCE, and takes acknowledged records again while the standby is being prepared."""
    world, topic = stage.world, stage.topics[1]
    acknowledged = [b"late %d" % i for i in range(40)]

    class Return(FreezeStep):
        """After this step the primary is back, and takes records."""

        done = False

        def run(self, context: Context) -> StepResult:
            result = super().run(context)
            if not self.done:
                self.done = True
                stage.is_back()
                assert all(stage.write(topic, acknowledged))
            return result

        def undo(self, context: Context) -> StepResult:
            done = super().undo(context)
            world.stop_replicating()  # `drkit replicate` begins again with the new producer id
            world.replicate()
            return done

    stage.primary.kill()
    with world.desk(steps={**all_steps(), StepName.FREEZE: Return()}) as desk:
        report = desk.begin([stage.groups[1]], RunRequest(accept_data_loss="for the test"))
    assert report["state"] == "done"
    run = world.run_log()
    assert not violations(run)
    assert [e.step for e in run.entries if e.kind is EntryKind.UNDONE] == [StepName.FREEZE]
    assert report["fence"]["proven"]
    assert report["loss"]["drained"], report["loss"]["statement"]
    there = {v for records in world.records(world.target, topic).values() for v in values(records)}
    assert set(acknowledged) <= there
    assert stage.write(topic, [b"too late"]) == [False]


@pytest.mark.soak
@pytest.mark.usefixtures("its_process_ended")
def test_behind_an_abort_that_is_pending_the_standby_can_be_opened(stage: Stage):
    """A1: the primary never returns."""
    world, topic = stage.world, stage.topics[0]
    taken_back_from_a_dead_primary(stage)
    with world.desk() as desk:
        report = desk.begin([stage.groups[0]], RunRequest(accept_data_loss="it is dead"))
    assert report["state"] == "done"
    assert world.run_log().state is RunState.DONE
    state = flow_state(world.state())
    role = state.get(RoleRecord, topic)
    assert role is not None
    assert role.is_promoted
    assert state.get(PendingLift) is None, "the fence is wanted again"
