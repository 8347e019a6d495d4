"""Orchestrators at once: one works, every other says why it does not; who was overtaken does nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drkit.flow_state.records import RoleRecord
from drkit.journal.entries import EntryKind
from drkit.journal.lost import left_runs, violations
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.circles import in_soak
from tests.support.failover.orchestrator import Kill, Orchestrators, Running
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

RIVALS = 3
TOPICS = 6
Begin = Callable[..., Running]


@pytest.fixture(scope="module")
def world(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    made = World(source, target, tmp_path_factory.mktemp("journal"))
    for i in range(TOPICS):
        made.create(made.source, made.name(f"t{i}"), 1, {})
        fill(made.source, made.name(f"t{i}"), 20)
        made.commit(made.source, made.name(f"g{i}"), {TopicPartition(made.name(f"t{i}"), 0): 5})
    made.replicate()
    made.copied(
        [made.name(f"t{i}") for i in range(TOPICS)], {made.name(f"g{i}"): None for i in range(TOPICS)}
    )
    yield made
    made.close()


@pytest.fixture
def begin(world: World, orchestrators: Orchestrators) -> Begin:
    """Begin the failover of a group."""

    def start(number: int, **more: Any) -> Running:
        return orchestrators.start(world.plain(), "begin", groups=[world.name(f"g{number}")], **more)

    return start


# P36
@pytest.mark.parametrize("number", [0, in_soak(1)])
def test_of_several_that_begin_at_once_one_ends_and_the_others_say_why(
    world: World, begin: Begin, number: int
) -> None:
    ended = [r.outcome() for r in [begin(number) for _ in range(RIVALS)]]
    done = [o for o in ended if o.error is None]
    assert len(done) == 1, [o.error for o in ended]
    assert done[0].report is not None
    for outcome in ended:
        if outcome.error is not None:
            # One that came when all was over finds the topics promoted.
            assert outcome.error["kind"] in {"RunLocked", "Refused"}, outcome.error
            assert outcome.error["exit_code"] == 3
            assert outcome.error["evidence"]
            assert outcome.error["hint"]
    run = world.run_log()
    assert run.run_id == done[0].report["run"]
    assert run.state is RunState.DONE
    assert not violations(run)
    assert world.state()[RoleRecord.key(world.name(f"t{number}"))]["run_id"] == run.run_id
    assert not left_runs(world.folder, world.settings.flows[0].name, {run.run_id}), (
        "a run that never began leaves no file: `--resume` would search for it"
    )


def entry_of(world: World, step: StepName, kind: EntryKind) -> int:
    """The number of an entry in a run that nothing disturbs, as in the ones before."""
    return next(n for n, e in enumerate(world.run_log().entries) if e.step is step and e.kind is kind)


@pytest.mark.wide
def test_no_run_is_taken_over_from_a_process_that_lives(
    world: World, begin: Begin, orchestrators: Orchestrators
) -> None:
    at = entry_of(world, StepName.TRANSLATE, EntryKind.INTENT)
    first = begin(2, freeze=Kill(at, "after"))
    try:
        eventually(first.is_stopped, what="the frozen orchestrator")
        second = orchestrators.run(world.plain(), "begin", groups=[world.name("g3")])
        assert second.error is not None
        assert second.error["kind"] == "RunLocked"
        assert str(first.pid) in _where(second.error) or "process" in _where(second.error)
        third = orchestrators.run(world.plain(), "resume")
        assert third.error is not None
        assert "lives" in third.error["evidence"]
    finally:
        first.wake()
    ended = first.outcome()
    assert ended.error is None, ended.error
    assert world.run_log().state is RunState.DONE


@pytest.mark.wide
def test_a_suspended_one_that_was_overtaken_does_nothing_more(
    world: World, begin: Begin, orchestrators: Orchestrators
) -> None:
    """As from another machine, which cannot see whether its process lives."""
    at = entry_of(world, StepName.TRANSLATE, EntryKind.INTENT)
    first = begin(4, freeze=Kill(at, "after"), elsewhere=True)
    try:
        eventually(first.is_stopped, what="the frozen orchestrator")
        second = orchestrators.run(world.plain(), "resume")
        assert second.error is None, second.error
        before = world.run_log()
        assert before.state is RunState.DONE
    finally:
        first.wake()
    late = first.outcome()
    assert late.error is not None
    assert late.error["kind"] == "RunLocked"
    after = world.run_log()
    assert len(after.entries) == len(before.entries), "nothing it wrote counts"
    assert after.run_id == before.run_id


def _where(error: dict[str, object]) -> str:
    return str(error["where"])
