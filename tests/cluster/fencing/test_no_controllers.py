"""A primary that answers and has lost most of its controllers changes no setting: it cannot be fenced."""

from __future__ import annotations

import pytest

from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import PendingFence
from drkit.local.cluster import LocalCluster
from tests.support.failover.fixtures import WorldFactory
from tests.support.flows.produce import answers
from tests.support.shared_clusters import ModuleClusters


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_primary_without_controllers_does_not_hold_a_failover(
    world_factory: WorldFactory, module_cluster: ModuleClusters, target: LocalCluster
) -> None:
    primary = module_cluster("quorum", brokers=3)
    world = world_factory(primary, target, replication_factor=1)
    topic, _ = world.copy_orders()
    world.stop_replicating()
    for broker in primary.brokers[:2]:
        broker.kill()
    with world.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="test", despite_signs_of_life="test"))
    assert report["state"] == "done", report
    assert PendingFence.KEY in world.state()
    assert answers(world.target, topic, [b"x"]) == [None]
