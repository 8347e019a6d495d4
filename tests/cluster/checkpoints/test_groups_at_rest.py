"""Groups of three-broker clusters under load and broker failures: positions at rest, and after the switch."""

from __future__ import annotations

from drkit.local.cluster import start_together
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.groups_at_rest import (
    check_positions,
    check_switch,
    come_to_rest,
    rounds_beside_a_copy,
    work_under_trouble,
)
from tests.support.shared_clusters import ClusterFactory

GROUPS = [f"g-{i}" for i in range(4)]


def test_positions_are_exact_at_rest_and_after_the_switch(
    cluster_factory: ClusterFactory, flow_factory: FlowFactory, topic_name: str
) -> None:
    source = cluster_factory("source-3", brokers=3, start=False)
    target = cluster_factory("target-3", brokers=3, start=False)
    start_together(source, target)
    flow = flow_factory(source, target)
    flow.create_both(topic_name, 12)
    with rounds_beside_a_copy(flow, topic_name, GROUPS) as rounds:
        read = work_under_trouble(
            flow, topic_name, GROUPS, [target, source], kills=2, per_second=1000, seed=2, calm=1.5
        )
        assert read > 1000
        come_to_rest(flow, GROUPS, rounds.told)
        assert check_positions(flow, topic_name, GROUPS) > 24
    check_switch(flow, topic_name, GROUPS)
