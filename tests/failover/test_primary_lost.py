"""The primary is killed under load: what moves is exact, what is lost is stated exactly."""

from __future__ import annotations

import pytest

from drkit.failover.context import Request
from drkit.failover.entries import violations
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.conftest import ClusterFactory
from tests.failover.conftest import WorldFactory
from tests.failover.truth import Load, check_loss, check_order, check_position, values
from tests.failover.world import World
from tests.replicate.process import eventually

PARTITIONS = 3
BEFORE = 2500


@pytest.fixture
def lost(
    world_factory: WorldFactory, cluster_factory: ClusterFactory, target: LocalCluster
) -> tuple[World, LocalCluster]:
    """A world whose primary is its own, to be killed."""
    primary = cluster_factory("primary")
    return world_factory(primary, target), primary


def groups_of(world: World, topic: str) -> dict[str, dict[TopicPartition, int]]:
    """Groups at different lags: at the start, behind, near the end, and one that knows one partition only."""
    ends = world.offsets(world.source, topic)
    groups = {
        world.name("start"): dict.fromkeys(ends, 0),
        world.name("behind"): {p: e // 3 for p, e in ends.items()},
        world.name("near"): {p: max(0, e - 2) for p, e in ends.items()},
        world.name("one"): {0: ends[0] // 2},
    }
    return {g: {TopicPartition(topic, p): o for p, o in at.items()} for g, at in groups.items()}


def test_groups_and_the_loss_when_the_primary_is_killed(lost: tuple[World, LocalCluster]) -> None:
    world, primary = lost
    topic, other = world.name("orders"), world.name("quiet")
    for name in (topic, other):
        world.create(world.source, name, PARTITIONS, {"retention.ms": "-1"})
    world.replicate()
    with Load(world.source, [topic, other]) as load:
        eventually(lambda: load.count > BEFORE, what="load")
        groups = groups_of(world, topic)
        for group, offsets in groups.items():
            world.commit(world.source, group, offsets)
        world.copied([], groups)
        eventually(lambda: load.count > 3 * BEFORE, what="more load")
        primary.kill()
        with world.desk() as desk:
            report = desk.begin((), Request())
    assert report["state"] == "done"
    assert not violations(world.run_log())
    lost_partitions = report["loss"]["partitions"]
    assert not report["loss"]["exact"]
    assert "lost is everything on the source from these offsets on" in report["loss"]["statement"]
    ours = {t: world.records(world.target, t) for t in (topic, other)}

    primary.restart()
    eventually(lambda: world.offsets(world.source, topic), what="the primary's return")
    missing = 0
    for name in (topic, other):
        theirs = world.records(world.source, name)
        check_order(theirs, ours[name], name)
        missing += check_loss(lost_partitions, theirs, ours[name], load.acked[name], name)
    theirs = world.records(world.source, topic)
    for group, offsets in groups.items():
        there = world.committed(world.target, group)
        for at, upstream in offsets.items():
            p = at.partition
            rest = check_position(at, upstream, there[at].offset, theirs[p], ours[topic][p])
            assert rest == [v for v in values(ours[topic][p]) if v in rest]
    assert sorted(report["groups"]["moved"]) == sorted(groups)
    assert missing <= load.count
