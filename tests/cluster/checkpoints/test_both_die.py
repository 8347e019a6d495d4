"""The replicator and the primary die at one moment: the target alone knows every position, exactly."""

from __future__ import annotations

from functools import partial

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.flows.both_die import die_together_again_and_again
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.kills import until_equal
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


@pytest.mark.wide
@pytest.mark.parametrize("mode", [in_soak("live"), "both"])
def test_the_target_alone_knows_every_position(
    module_cluster: ModuleClusters,
    target: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    mode: str,
) -> None:
    source = module_cluster("doomed")
    flow = flow_factory(source, target, bulk_commit_seconds=0.3)
    counted = die_together_again_and_again(flow, source, topic_name, mode, deaths=3, seed=5)
    assert counted.pop("exact") > 1000
    counted.pop("not copied", None)
    assert not counted, "something confirms each of them"


@pytest.mark.soak
def test_a_source_with_another_leader_epoch_is_not_taken_for_one_that_lost_its_end(
    module_cluster: ModuleClusters, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    """It comes back and is copied by tasks that die before they write a mark: no record is copied twice."""
    source = module_cluster("doomed")
    flow = flow_factory(source, target)
    flow.create_both(topic_name)

    def copied(count: int) -> bool:
        return flow.offsets(flow.target, topic_name)[0] >= count

    for life in range(3):
        fill(flow.source, topic_name, 500, first=500 * life)
        task = flow.start(topic_name, once=False)
        eventually(partial(copied, 500 * life + 500), what=f"the records of life {life}")
        task.kill()  # before it has written a mark
        source.kill()
        source.restart()
    until_equal(flow, topic_name)
    assert not flow.events("source_diverged")
