"""Clusters that answer, while the coordinator of some of their groups is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.groups.waits import kept_in
from drkit.failover.runs import all_steps
from drkit.failover.steps.group_offsets import CommitOffsetsStep
from drkit.journal.machine import StepName
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.next_command import translate_group
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

COPIED, SYNCED, LATER = 20, 5, 15
ONE_REPLICA = {"offsets.topic.replication.factor": "1"}


def _copied(world: World, replicas: int) -> tuple[str, list[str], TopicPartition]:
    """Copy a topic of one partition with eight groups; return the topic, the groups and the partition."""
    topic, groups = world.name("orders"), [world.name(f"g{n}") for n in range(8)]
    tp = TopicPartition(topic, 0)
    world.create(world.source, topic, 1, {"retention.ms": "-1"}, replicas=replicas)
    fill(world.source, topic, COPIED)
    for group in groups:
        world.commit(world.source, group, {tp: SYNCED})
    world.replicate()
    world.copied([topic], dict.fromkeys(groups))
    return topic, groups, tp


def _lose_a_coordinator(
    world: World, settings: ClusterSettings, cluster: LocalCluster, topic: str, groups: list[str]
) -> tuple[list[str], int]:
    """Kill a broker that does not lead the topic; return the groups that it coordinates, and its id."""
    leaders = world.topic(settings, OFFSETS_TOPIC).leaders
    coordinators = {g: leaders[kept_in(g, len(leaders))].node for g in groups}
    dead = next(n for n in coordinators.values() if n != world.topic(settings, topic).leaders[0].node)
    cluster.broker(dead).kill()
    eventually(lambda: dead not in world.topic(settings, topic).leaders[0].in_sync, 60, "the ISR")
    eventually(
        lambda: any(p.node < 0 for p in world.topic(settings, OFFSETS_TOPIC).leaders.values()), 60, "its end"
    )
    return [g for g, node in coordinators.items() if node == dead], dead


def _moved_without(
    world: World,
    report: dict[str, Any],
    tp: TopicPartition,
    groups: list[str],
    lost: tuple[list[str], int],
    *,
    named_by: StepName,
) -> tuple[list[str], list[str]]:
    """Check that all groups but the lost ones moved; return those, and the notes of the step that names it.

    :param lost: groups whose coordinator is away, and its id
    """
    away, dead = lost
    moved = sorted(set(groups) - set(away))
    assert (report["state"], sorted(report["groups"]["moved"])) == ("done", moved), report
    assert sorted(report["groups"]["positions"]) == moved, "nothing is called exact of the others"
    notes: list[str] = world.run_log().results[named_by]["notes"]
    for group in away:
        assert f"broker {dead}" in report["groups"]["unavailable"][group][str(tp)]
        assert any(group in note and translate_group(group) in note for note in notes), notes
    for group in moved:
        assert world.committed(world.target, group)[tp].offset == SYNCED
    return moved, notes


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_group_whose_coordinator_is_away_is_not_left_behind(
    module_cluster: ModuleClusters, world_factory: WorldFactory
) -> None:
    """Its offsets have one replica, and no broker lists it; the records have three replicas."""
    primary = module_cluster("thin", brokers=3, properties=ONE_REPLICA)
    world = world_factory(primary, module_cluster("standby"), replication_factor=1)
    topic, groups, tp = _copied(world, replicas=3)
    away, _ = _lose_a_coordinator(world, world.source, primary, topic, groups)
    for group in set(groups) - set(away):
        world.commit(world.source, group, {tp: LATER})

    with world.desk() as desk, pytest.raises(ClusterUnreachable, check=coded("cluster_request_failed")):
        desk.begin([], RunRequest(planned=True))
    assert answers(world.source, topic, [b"x"]) == [None], "nothing is fenced"
    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="for the test"))
    assert (report["state"], sorted(report["groups"]["moved"])) == ("done", sorted(groups)), report
    for group in groups:
        assert world.committed(world.target, group)[tp].offset in {SYNCED, LATER}


@pytest.mark.wide
@pytest.mark.timeout(500)
def test_a_standby_opens_although_a_coordinator_of_groups_is_away_there(
    module_cluster: ModuleClusters, world_factory: WorldFactory
) -> None:
    """The primary is dead. Groups that cannot be asked are known by their checkpoints, and are named."""
    standby = module_cluster("thin standby", brokers=3, properties=ONE_REPLICA)
    primary = module_cluster("lost primary")
    world = world_factory(primary, standby)
    topic, groups, tp = _copied(world, replicas=1)
    world.stop_replicating()
    away, dead = _lose_a_coordinator(world, world.target, standby, topic, groups)
    primary.kill()

    with world.desk() as desk, pytest.raises(ClusterUnreachable, check=coded("coordinator_away")) as caught:
        desk.begin([], RunRequest())
    assert str(dead) in caught.value.where
    assert "--accept-data-loss" in caught.value.hint
    with world.desk() as desk:
        found = desk.rehearse([], RunRequest(accept_data_loss="for the test")).survey.outside.notes()
        assert all(any(group in note and translate_group(group) in note for note in found) for group in away)
    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="for the test"))
    assert sorted(report["groups"]["unavailable"]) == sorted(away)
    moved, notes = _moved_without(world, report, tp, groups, (away, dead), named_by=StepName.TRANSLATE)
    assert any(f"{len(moved)} positions of {len(moved)} groups are exact" in note for note in notes), notes
    assert answers(world.target, topic, [b"x"]) == [None], "the standby is open"


class LosesACoordinator(CommitOffsetsStep):
    """Before offsets are committed on the standby, a broker of it dies."""

    def __init__(self, lose: Callable[[], tuple[list[str], int]]) -> None:
        self._lose = lose
        self.away, self.dead = list[str](), -1

    def run(self, context: Context) -> StepResult:
        if not self.away:
            self.away, self.dead = self._lose()
        return super().run(context)


@pytest.mark.wide
@pytest.mark.timeout(500)
def test_a_standby_opens_although_a_coordinator_goes_away_before_its_groups_have_their_offsets(
    module_cluster: ModuleClusters, world_factory: WorldFactory
) -> None:
    standby = module_cluster("thinner standby", brokers=3, properties=ONE_REPLICA)
    primary = module_cluster("another lost primary")
    world = world_factory(primary, standby)
    topic, groups, tp = _copied(world, replicas=1)
    world.stop_replicating()
    primary.kill()
    step = LosesACoordinator(lambda: _lose_a_coordinator(world, world.target, standby, topic, groups))
    with world.desk(steps={**all_steps(), step.name: step}) as desk:
        report = desk.begin([], RunRequest(accept_data_loss="for the test"))
    lost = step.away, step.dead
    _moved_without(world, report, tp, groups, lost, named_by=StepName.COMMIT_OFFSETS)
