"""Records that only the leader of the primary has: they may be acknowledged, and no consumer sees them."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

COPIED, LATE = 100, 50


@pytest.mark.wide
def test_a_switchover_waits_until_every_replica_in_sync_has_them(
    module_cluster: ModuleClusters, world_factory: WorldFactory
) -> None:
    """Without enough replicas in sync a leader takes records with acks=1, and its high watermark stays."""
    primary = module_cluster("three", brokers=3)
    world = world_factory(primary, module_cluster("standby"), replication_factor=1)
    world.failover_fields["drain_seconds"] = 2.0
    topic = world.name("orders")
    world.create(world.source, topic, 1, {"retention.ms": "-1", "min.insync.replicas": "2"}, replicas=2)
    fill(world.source, topic, COPIED)
    world.replicate()
    world.copied([topic])
    leader = world.topic(world.source, topic).leaders[0]
    [follower] = set(leader.replicas) - {leader.node}
    primary.broker(follower).kill()
    eventually(lambda: world.topic(world.source, topic).leaders[0].in_sync == (leader.node,), 60, "the ISR")
    fill(world.source, topic, LATE, first=COPIED, acks="1")
    assert world.offsets(world.source, topic) == {0: COPIED}, "no consumer sees them"

    with world.desk() as desk, pytest.raises(Refused, check=coded("switchover_incomplete")) as refused:
        desk.begin([], RunRequest(planned=True))
    assert f"{LATE} records of them may still be acknowledged" in refused.value.evidence
    primary.broker(follower).restart()
    eventually(lambda: world.offsets(world.source, topic) == {0: COPIED + LATE}, 60, "both replicas")
    with world.desk() as desk:
        report = desk.resume(RunRequest())
    assert (report["state"], report["loss"]["records"], report["loss"]["exact"]) == ("done", 0, True)
    assert len(world.records(world.target, topic)[0]) == COPIED + LATE
