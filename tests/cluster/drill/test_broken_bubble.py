"""A bubble that something spoils fails and names it; one that is not to run, or is ended, says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import threading

import pytest

from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.history import DrillHistory
from drkit.drill.plan import DrillPlan, endpoint_file
from drkit.flow_state.names import drill_group, drill_topic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.watch import automatic
from tests.support.drill.production import Production, plan_of, run
from tests.support.errors import longest_part, sentence
from tests.support.failover.truth import Load
from tests.support.failover.world import World
from tests.support.flows.produce import producer

Spoil = Callable[[Production, DrillPlan], None]


@pytest.fixture(scope="module")
def production(
    tmp_path_factory: pytest.TempPathFactory, source: LocalCluster, target: LocalCluster
) -> Iterator[Production]:
    world = World(source, target, tmp_path_factory.mktemp("world") / "journal")
    yield Production(world)
    world.close()


def a_position_one_later(production: Production, plan: DrillPlan) -> None:
    world = production.world
    world.commit(
        world.target, drill_group(plan.id, "middle"), {TopicPartition(drill_topic(plan.id, "payments"), 0): 6}
    )


def a_foreign_record(production: Production, plan: DrillPlan) -> None:
    writer = producer(production.world.target)
    writer.produce(drill_topic(plan.id, "ledger"), b"foreign", b"foreign", partition=0)
    assert writer.flush(30) == 0


def an_endpoint_that_cannot_be_replaced(production: Production, plan: DrillPlan) -> None:
    file = endpoint_file(production.world.settings, plan.id)
    file.unlink()
    file.mkdir()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("step", "spoil", "reason"),
    [
        ("CHECK", a_position_one_later, "positions of groups"),
        ("CHECK", a_foreign_record, "foreign"),
        ("FAILOVER", an_endpoint_that_cannot_be_replaced, longest_part("repoint_failed")),
    ],
)
def test_what_is_broken_is_named(production: Production, step: str, spoil: Spoil, reason: str) -> None:
    settings = production.world.settings
    plan, before = plan_of(settings), production.inventories()

    def begun(name: str) -> None:
        if name == step:
            spoil(production, plan)

    report = run(settings, plan, begun=begun)
    assert report.verdict == "fail", report.reasons
    assert any(reason in each for each in report.reasons), report.reasons
    production.same(before, production.inventories())


@pytest.mark.wide
def test_an_outage_longer_than_the_objective_is_a_failure(production: Production) -> None:
    settings = production.world.settings
    report = run(settings, plan_of(settings, objectives=DrillObjectives(rto_seconds=0.001)))
    assert report.verdict == "fail"
    assert all("rto_seconds = 0.001" in reason for reason in report.reasons), report.reasons
    assert {outage.operation for outage in report.rto} == {"produce", "consume"}


@pytest.mark.wide
def test_a_drill_is_skipped_while_failovers_are_paused(production: Production) -> None:
    settings = production.world.settings
    automatic.pause(settings, settings.flows[0], "test", "maintenance")
    try:
        report = run(settings, plan_of(settings))
    finally:
        automatic.resume(settings, settings.flows[0])
    assert (report.verdict, sentence("failovers_paused") in report.reasons[0]) == ("skipped", True), (
        report.reasons
    )


@pytest.mark.wide
def test_a_drill_that_the_standby_has_no_room_for_is_refused(production: Production) -> None:
    settings = production.world.settings
    report = run(settings, plan_of(settings, limits=DrillLimits(bytes_per_second=10**12, seconds=900)))
    assert report.verdict == "refused", report.reasons
    assert report.reasons[0].startswith(f"{sentence('drill_no_room')}: "), report.reasons
    assert report.reasons[0].endswith(" bytes are free, it may write 900,000,000,000,000")


@pytest.mark.wide
def test_it_ends_when_production_falls_behind_and_when_it_is_stopped(production: Production) -> None:
    world, settings = production.world, production.world.settings
    before = production.inventories()

    def stop_copying(name: str) -> None:
        if name == "CREATE":
            world.stop_replicating()

    with Load(world.source, production.topics, per_second=500):
        limits = DrillLimits(production_lag=100, seconds=900)
        report = run(settings, plan_of(settings, limits=limits), begun=stop_copying)
    world.replicate()
    assert report.verdict == "aborted", report.reasons
    assert "limits.production_lag = 100" in report.reasons[0]
    world.copied(production.topics)
    world.protected(production.topics)
    stop = threading.Event()
    report = run(
        settings,
        plan_of(settings),
        begun=lambda name: stop.set() if name == "STEADY" else None,
        stop=stop,
    )
    assert (report.verdict, report.reasons) == ("aborted", (sentence("process_stopped"),))
    assert not any(entry.cleanup_owed for entry in DrillHistory.of(settings).entries())
    production.same(before, production.inventories())
