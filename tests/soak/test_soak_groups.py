"""Many groups on many partitions, under load and broker failures; offsets that outlive their retention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import threading
import time

import pytest

from drkit.local.cluster import LocalCluster, start_together
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.groups_at_rest import (
    check_positions,
    check_switch,
    come_to_rest,
    work_under_trouble,
)
from tests.support.shared_clusters import ClusterFactory
from tests.support.soak.drkit_world import DrkitWorld
from tests.support.status.checkpoint_world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.soak
GROUPS = [f"g-{i:02d}" for i in range(20)]
PARTITIONS = 120


@pytest.mark.parametrize("seed", range(2))
def test_twenty_groups_on_120_partitions(
    cluster_factory: ClusterFactory, tmp_path: Path, topic_name: str, seed: int
) -> None:
    source = cluster_factory("source-3", brokers=3, start=False)
    target = cluster_factory("target-3", brokers=3, start=False)
    start_together(source, target)
    world = DrkitWorld(source, target, tmp_path, topic_name, buckets=16)
    world.create(world.source, topic_name, PARTITIONS, {"min.insync.replicas": "2"})
    drkit = world.replicate()
    try:
        eventually(lambda: drkit.alive() and world.knows_its_copy(), 120, "the copy's record in the state")
        clusters: Sequence[LocalCluster] = [target, source]
        read = work_under_trouble(
            world, topic_name, GROUPS, clusters, kills=8, per_second=1000, seed=seed, calm=8.0
        )
        assert read > 20_000
        come_to_rest(world, GROUPS, world.told, 120)
        assert check_positions(world, topic_name, GROUPS) > 20 * 100
    finally:
        drkit.kill()
    check_switch(world, topic_name, GROUPS)
    world.close()


def test_positions_outlive_the_target_s_retention_of_offsets(
    cluster_factory: ClusterFactory, source: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    """Kept for one minute there: what is written again stays, what is not is forgotten."""
    properties = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    target = cluster_factory("forgetful", properties=properties)
    world = World(flow_factory(source, target), topic_name)
    forgotten = f"{world.group}-forgotten"
    for group in (world.group, forgotten):
        world.commit(world.flow.source, 5, group)
    assert world.round(groups=(world.group, forgotten)).verdicts == {"WRITE": 2}
    kept, pause, ends = world.there(), threading.Event(), time.monotonic() + 150
    assert kept is not None
    while time.monotonic() < ends:
        pause.wait(2.0)
        assert world.round(refresh_ms=15_000).verdicts.keys() <= {"UNCHANGED", "REFRESH"}
        there = world.there()
        assert there is not None
        assert there.offset == kept.offset
    assert world.there(forgotten) is None
    world.task.close()
