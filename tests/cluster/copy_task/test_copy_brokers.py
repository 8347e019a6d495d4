"""Clusters of three: brokers that are killed and come back while records and groups' positions are copied."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from drkit.copy_task import copier
from drkit.copy_task.target import resolver
from drkit.kafka.raw import RawError
from drkit.local.cluster import LocalCluster
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.reading import read_on
from tests.support.circles import in_soak
from tests.support.flows.compare import check_copy
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.groups_at_rest import (
    check_positions,
    check_switch,
    come_to_rest,
    rounds_beside_a_copy,
    work_under_trouble,
)
from tests.support.flows.produce import Load, fill
from tests.support.shared_clusters import ModuleClusters

GROUPS = [f"g-{i}" for i in range(4)]


@pytest.fixture
def two_of_three(
    module_cluster: ModuleClusters, flow_factory: FlowFactory
) -> tuple[Flow, LocalCluster, LocalCluster]:
    """A flow between two clusters of three brokers."""
    source, target = module_cluster.ready({"source-3": {"brokers": 3}, "target-3": {"brokers": 3}})
    return flow_factory(source, target), source, target


def _killed(flow: Flow, topic: str, clusters: Sequence[LocalCluster], records: int) -> None:
    """Kill a broker of each of these clusters while these records are copied, and again when it is back."""
    fill(flow.source, topic, records)
    with Load(flow.source, [topic], per_second=records // 2):
        task = flow.start(topic, once=False, seconds=240)
        flow.grown(topic, records)
        for cluster in clusters:
            broker = cluster.broker(1)
            broker.kill()
            # The remaining two carry on: it is a broker that is gone, not the copy.
            flow.grown(topic, records, seconds=60)
            cluster.restart()
            flow.grown(topic, records, seconds=60)
        task.kill()
    flow.copy(topic)
    check_copy(flow, topic)


@pytest.mark.wide
def test_a_broker_of_three_killed_on_the_target(
    source: LocalCluster, module_cluster: ModuleClusters, flow_factory: FlowFactory, topic_name: str
) -> None:
    target = module_cluster("target-3", brokers=3)
    flow = flow_factory(source, target)
    flow.create(flow.source, topic_name, 6, {}, replicas=1)
    flow.create(flow.target, topic_name, 6, flow.passive({}), replicas=3)
    _killed(flow, topic_name, [target], 1000)


@pytest.mark.soak
def test_a_broker_of_three_killed_on_either_side(
    two_of_three: tuple[Flow, LocalCluster, LocalCluster], topic_name: str
) -> None:
    flow, source, target = two_of_three
    flow.create_both(topic_name, 6)
    _killed(flow, topic_name, [target, source], 4000)


@pytest.mark.soak
def test_positions_are_exact_at_rest_and_after_the_switch(
    two_of_three: tuple[Flow, LocalCluster, LocalCluster], topic_name: str
) -> None:
    """Of groups, under load and broker failures."""
    flow, source, target = two_of_three
    flow.create_both(topic_name, 12)
    with rounds_beside_a_copy(flow, topic_name, GROUPS) as rounds:
        read = work_under_trouble(
            flow, topic_name, GROUPS, [target, source], kills=2, per_second=1000, seed=2, calm=1.5
        )
        assert read > 1000
        come_to_rest(flow, GROUPS, rounds.told)
        assert check_positions(flow, topic_name, GROUPS) > 24
    check_switch(flow, topic_name, GROUPS)


@pytest.mark.soak
@pytest.mark.parametrize("reader", [copier, in_soak(resolver)])
def test_a_broker_that_goes_away_while_a_task_begins(
    flow: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch, reader: ModuleType
) -> None:
    """The request is repeated: otherwise a lost connection would restart a whole Spark job."""
    flow.create_both(topic_name, 3)
    fill(flow.source, topic_name, 5000)
    lost: list[MapBucket] = []

    async def cut(cluster: Any, topic: Any, bucket: MapBucket) -> None:
        if not lost:
            lost.append(bucket)
            raise RawError("reset by peer")
        await read_on(cluster, topic, bucket)

    monkeypatch.setattr(reader, "read_on", cut)
    flow.copy(topic_name)
    assert lost
    check_copy(flow, topic_name)


@pytest.mark.soak
def test_leaders_that_move_all_the_time(
    two_of_three: tuple[Flow, LocalCluster, LocalCluster], topic_name: str
) -> None:
    """Controlled shutdowns one after the other, as in a rolling restart of the target."""
    flow, _, target = two_of_three
    flow.create_both(topic_name, 4)
    with Load(flow.source, [topic_name], per_second=2000):
        task = flow.start(topic_name, once=False, seconds=240)
        flow.grown(topic_name, 1000)
        for broker in target.brokers[:2]:
            broker.restart()
            flow.grown(topic_name, 1000)
        task.kill()
    flow.copy(topic_name)
    check_copy(flow, topic_name)
