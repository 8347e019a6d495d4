"""A bubble between the clusters of production, under load: its result, and what it leaves."""

from __future__ import annotations

from contextlib import suppress
import subprocess
import threading
from typing import Any

import pytest

from drkit.clock import wall_ms
from drkit.drill.history import DrillHistory
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import drill_alias, drill_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import ask_once
from drkit.kafka.topics import alter_topic_configs, delete_topics, topic_names
from drkit.kafka.transactions import hanging
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak, in_wide
from tests.support.drill.process import drill_in
from tests.support.drill.production import Production, cleaned, plan_of, run
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.failover.truth import Load
from tests.support.flows.produce import producer
from tests.support.waiting import eventually


def test_a_bubble_beside_production(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    """P28: a whole failover is rehearsed beside production, which keeps everything as it was."""
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    with Load(world.source, production.topics, per_second=200) as load:
        report = run(settings, plan)
    assert report.verdict == "pass", report.reasons
    live = ("an append in an older epoch", "a foreign record in the copy")
    assert [report.controls[name] for name in live] == [True, True]
    production.same(before, production.inventories())
    assert load.count > 500
    assert not load.refused
    world.copied(production.topics)
    world.protected(production.topics)


STEPS = (
    "GATE",
    "INVENTORY",
    "CREATE",
    "STEADY",
    "FAILOVER",
    "CLIENTS",
    "CHECK",
    "CONTROLS",
    "CLEAN",
    "COMPARE",
)
NOTHING_THERE = {"GATE", "INVENTORY", "CLEAN", "COMPARE"}
"""Steps in which there may be nothing to delete."""


def sampled(*wide: str) -> list[Any]:
    return [in_wide(step) if step in wide else in_soak(step) for step in STEPS]


@pytest.mark.parametrize("step", sampled("CREATE", "FAILOVER", "CLEAN"))
def test_the_cleanup_of_a_killed_bubble_leaves_nothing(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, step: str
) -> None:
    production = Production(world_factory(source, target))
    world, settings = production.world, production.world.settings
    before = production.inventories()
    plan = plan_of(settings)
    with drill_in(step, settings, plan) as drill:
        with suppress(subprocess.TimeoutExpired):
            drill.wait(0.1 if step == "CLEAN" else 0.5)  # into the step
        if step not in NOTHING_THERE:
            with pytest.raises(Refused, check=coded("drill_running")):
                cleaned(settings)
    foreign = drill_topic(plan.id, "foreign")
    world.create(world.source, foreign, 1, {})
    owed = cleaned(settings)
    assert owed in ({}, {plan.id: []})
    assert owed or step in NOTHING_THERE
    assert cleaned(settings) == {}
    assert not world.topic(world.source, foreign).error, "a topic that the record does not name was deleted"
    delete_topics(Cluster.connect(world.source), [foreign])
    eventually(lambda: world.topic(world.source, foreign).error != 0, 30, "the foreign topic is gone")
    production.same(before, production.inventories())


@pytest.mark.parametrize("step", sampled("STEADY", "FAILOVER"))
def test_a_real_failover_ends_a_bubble(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, step: str
) -> None:
    production = Production(world_factory(source, target))
    world = production.world
    world.failover_fields |= {"repoint": [], "fence": {}}
    settings = world.settings
    reports: list[dict[str, Any]] = []

    def fail_over() -> None:
        with world.desk() as service:
            reports.append(service.begin([], RunRequest(planned=True, clients_cut="test")))

    real = threading.Thread(target=fail_over)

    def begun(name: str) -> None:
        if name == step:
            real.start()
            eventually(world.steps_begun, 60, "the first entry of the failover")

    report = run(settings, plan_of(settings), begun=begun)
    real.join()
    assert reports[0]["state"] == "done"
    [entry] = DrillHistory.of(settings).entries()
    if step in STEPS[: STEPS.index("CONTROLS")]:
        assert report.verdict == "aborted", report.reasons
        assert report.reasons == (f"production failover {reports[0]['run']} began",)
        assert report.steps[-1].name == step
        assert entry.cleanup_owed is (step != "GATE")
    else:  # it may have ended by itself before it saw the failover
        assert report.verdict in {"aborted", "pass"}, report.reasons
    assert cleaned(settings) == ({report.id: []} if entry.cleanup_owed else {})
    for cluster in (world.source, world.target):
        left = {name for name in topic_names(Cluster.connect(cluster)) if report.id in name}
        assert not left


@pytest.mark.wide
def test_a_transactional_id_that_waits_for_a_marker_is_not_used_again(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    """An earlier fence by size has refused the marker; each later bubble failed until a broker restarted."""
    production = Production(world_factory(source, target))
    world = production.world
    cluster, fenced = Cluster.connect(world.source), world.name("fenced")
    world.create(world.source, fenced, 1, {})
    stuck = f"{drill_alias(world.source.alias)}.payments-1"
    writer = producer(world.source, transactional_id=stuck)
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(fenced, b"x")
    assert writer.flush(30) == 0
    assert not alter_topic_configs(cluster, {fenced: {"max.message.bytes": "0"}})
    writer.abort_transaction(30)
    delete_topics(cluster, [fenced])

    def is_waiting() -> bool:
        return stuck in ask_once(world.source, "test", lambda raw: hanging(raw, wall_ms()), what="ask")

    eventually(is_waiting, 30, "the refused marker")
    report = run(world.settings, plan_of(world.settings))
    assert report.verdict == "pass", report.reasons


@pytest.mark.wide
def test_a_bubble_of_a_lost_source(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    production = Production(world_factory(source, target))
    settings = production.world.settings
    before = production.inventories()
    report = run(settings, plan_of(settings, cut="lost"))
    assert report.verdict == "pass", report.reasons
    assert report.rpo is not None
    assert report.rpo.records
    production.same(before, production.inventories())
