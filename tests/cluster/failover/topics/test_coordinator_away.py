"""A primary that answers, while the coordinator of some of its groups is away."""

from __future__ import annotations

import pytest

from drkit.errors import ClusterUnreachable
from drkit.failover.core.request import RunRequest
from drkit.failover.groups.waits import kept_in
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

COPIED, SYNCED, LATER = 20, 5, 15


@pytest.mark.timeout(400)
def test_a_group_whose_coordinator_is_away_is_not_left_behind(
    module_cluster: ModuleClusters, world_factory: WorldFactory
) -> None:
    """Its offsets have one replica, and no broker lists it; the records have three replicas."""
    one_replica = {"offsets.topic.replication.factor": "1"}
    primary = module_cluster("thin", brokers=3, properties=one_replica)
    world = world_factory(primary, module_cluster("standby"), replication_factor=1)
    topic, groups = world.name("orders"), [world.name(f"g{n}") for n in range(8)]
    at = TopicPartition(topic, 0)
    world.create(world.source, topic, 1, {"retention.ms": "-1"}, replicas=3)
    fill(world.source, topic, COPIED)
    for group in groups:
        world.commit(world.source, group, {at: SYNCED})
    world.replicate()
    world.copied([topic], dict.fromkeys(groups))
    leaders = world.topic(world.source, OFFSETS_TOPIC).leaders
    coordinators = {g: leaders[kept_in(g, len(leaders))].node for g in groups}
    dead = next(n for n in coordinators.values() if n != world.topic(world.source, topic).leaders[0].node)
    primary.broker(dead).kill()
    eventually(lambda: dead not in world.topic(world.source, topic).leaders[0].in_sync, 60, "the ISR")
    for group, node in coordinators.items():
        if node != dead:
            world.commit(world.source, group, {at: LATER})

    with world.desk() as desk, pytest.raises(ClusterUnreachable, check=coded("cluster_request_failed")):
        desk.begin([], RunRequest(planned=True))
    assert answers(world.source, topic, [b"x"]) == [None], "nothing is fenced"
    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="for the test"))
    assert (report["state"], sorted(report["groups"]["moved"])) == ("done", sorted(groups)), report
    for group in groups:
        assert world.committed(world.target, group)[at].offset in {SYNCED, LATER}
