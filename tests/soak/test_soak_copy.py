"""The copy task under many kills: every run must end with equal logs and an exact map."""

from __future__ import annotations

import random

import pytest

from drkit.local.cluster import start_together
from tests.support.flows.compare import check_copy
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.kills import kill_again_and_again, until_equal
from tests.support.flows.produce import Load, fill, now_ms

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["live", "bulk", "both"])
def test_killed_under_load(flow: Flow, topic_name: str, mode: str, seed: int) -> None:
    kill_again_and_again(flow, topic_name, mode, kills=30, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_three_tasks_stop_and_go_in_turn(flow: Flow, topic_name: str, seed: int) -> None:
    chance = random.Random(seed)
    flow.create_both(topic_name, 3)
    with Load(flow.source, [topic_name], per_second=5000):
        lease = flow.lease(topic_name, once=False, seconds=40)
        tasks = [flow.start(lease=lease) for _ in range(3)]
        for _ in range(40):
            frozen = chance.choice(tasks)
            frozen.freeze()
            frozen.ended_within(chance.uniform(0.05, 0.8))
            frozen.resume()
        for task in tasks:
            task.report(120)
    until_equal(flow, topic_name)


def test_brokers_and_tasks_killed_together(
    cluster_factory, flow_factory: FlowFactory, topic_name: str
) -> None:
    """Three brokers on both sides; a random one dies, and so does the task, ten times."""
    chance = random.Random(1)
    source = cluster_factory("source-3", brokers=3, start=False)
    properties = {"producer.id.expiration.check.interval.ms": "500"}
    target = cluster_factory("target-3", brokers=3, start=False, properties=properties)
    start_together(source, target)
    flow = flow_factory(source, target, bulk_commit_seconds=0.3)
    flow.create_both(topic_name, 4, retention_ms="-1")

    def timestamp(i: int) -> int:
        return now_ms() - (2 * DAY_MS if (i // 2000) % 2 else 0)

    fill(flow.source, topic_name, 20_000, timestamp=timestamp)
    with Load(flow.source, [topic_name], per_second=2000, timestamp=timestamp):
        for _ in range(10):
            task = flow.start(topic_name, once=False, seconds=240)
            flow.grown(topic_name, 500, seconds=120)
            cluster = chance.choice([source, target])
            broker = chance.choice(cluster.brokers)
            chance.choice([broker.kill, broker.terminate])()
            task.kill_after(chance.uniform(0.2, 4.0))
            cluster.restart()
    flow.copy(topic_name, seconds=240)
    check_copy(flow, topic_name, uncommitted=False)
