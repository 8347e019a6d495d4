"""The replicator and the primary die at one moment: the target alone knows every position, exactly."""

from __future__ import annotations

import pytest

from drkit.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.replicate.both_die import die_together_again_and_again
from tests.replicate.conftest import FlowFactory


@pytest.mark.parametrize("mode", ["live", "both"])
def test_the_target_alone_knows_every_position(
    cluster_factory: ClusterFactory,
    target: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    mode: str,
) -> None:
    source = cluster_factory("doomed")
    flow = flow_factory(source, target, bulk_commit_seconds=0.3)
    counted = die_together_again_and_again(flow, source, topic_name, mode, deaths=3, seed=5)
    assert counted.pop("exact") > 1000
    counted.pop("not copied", None)
    assert not counted, "something confirms each of them"
