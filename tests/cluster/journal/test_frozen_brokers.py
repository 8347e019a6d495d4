"""Brokers that stop answering in the middle of a failover and come back: the orchestrator survives them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from drkit.model import TopicPartition
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.orchestrator import Kill, Orchestrators, Running
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ClusterFactory
from tests.support.waiting import eventually

FROZEN_SECONDS = 4.0
Cases = tuple[tuple[StepName, str], ...]
ONE_OF_EACH: Cases = ((StepName.TRANSLATE, "primary"), (StepName.COMMIT_OFFSETS, "standby"))
OTHERS: Cases = ((StepName.DRAIN, "primary"), (StepName.OPEN, "standby"))


def prepared(world: World, number: int) -> None:
    for i in range(number):
        world.create(world.source, world.name(f"t{i}"), 2, {})
        fill(world.source, world.name(f"t{i}"), 40)
        ends = world.offsets(world.source, world.name(f"t{i}"))
        at = {TopicPartition(world.name(f"t{i}"), p): e // 2 for p, e in ends.items()}
        world.commit(world.source, world.name(f"g{i}"), at)
    world.replicate()
    world.copied(
        [world.name(f"t{i}") for i in range(number)], {world.name(f"g{i}"): None for i in range(number)}
    )


def begin(orchestrators: Orchestrators, world: World, number: int, **more: Any) -> Running:
    return orchestrators.start(world.plain(), "begin", groups=[world.name(f"g{number}")], **more)


@pytest.mark.wide
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "cases",
    [pytest.param(ONE_OF_EACH, id="one-of-each"), pytest.param(OTHERS, id="others", marks=pytest.mark.soak)],
)
def test_the_orchestrator_survives_brokers_that_freeze_and_revive(
    world_factory: WorldFactory, cluster_factory: ClusterFactory, orchestrators: Orchestrators, cases: Cases
) -> None:
    clusters = {name: cluster_factory(name) for name in ("primary", "standby")}
    world = world_factory(*clusters.values())
    prepared(world, len(cases) + 1)
    first = begin(orchestrators, world, len(cases)).outcome()
    assert first.error is None, first.error
    entries = world.run_log().entries
    for number, (step, which) in enumerate(cases):
        at = next(n for n, e in enumerate(entries) if e.step is step and e.kind is EntryKind.INTENT)
        running = begin(orchestrators, world, number, freeze=Kill(at, "after"))
        eventually(running.is_stopped, what=f"{step}")
        clusters[which].freeze()
        running.wake()
        assert not _ended_within(running, FROZEN_SECONDS) or which == "primary"
        clusters[which].resume()
        outcome = running.outcome()
        # It went on by itself, or gave up in order; it was never killed by one of its libraries.
        assert outcome.killed is False, (step, which, outcome.error)
        if outcome.error is not None:
            again = orchestrators.run(world.plain(), "resume")
            assert again.error is None, (step, which, outcome.error, again.error)
        run = world.run_log()
        assert run.state is RunState.DONE
        assert not violations(run)


def _ended_within(running: Running, seconds: float) -> bool:
    """Let it run for some seconds; whether it ended in that time."""
    threading.Event().wait(seconds)
    return running.has_ended()
