"""Copy tasks that die, freeze or run twice lose nothing and copy nothing twice."""

from __future__ import annotations

import random

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.flows.compare import check_copy
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.kills import kill_again_and_again, until_equal
from tests.support.flows.produce import Load, fill, now_ms
from tests.support.waiting import eventually

_OLD_MS = 3 * 365 * DAY_MS


@pytest.mark.parametrize("mode", [in_soak("live"), in_soak("bulk"), "both"])
def test_killed_again_and_again_under_load(flow: Flow, topic_name: str, mode: str) -> None:
    kill_again_and_again(flow, topic_name, mode, kills=4, seed=11)


@pytest.mark.soak
@pytest.mark.parametrize("age_ms", [0, in_soak(_OLD_MS)], ids=["live", "bulk"])
def test_two_at_once_by_mistake(flow: Flow, topic_name: str, age_ms: int) -> None:
    flow.create_both(topic_name, 2, retention_ms="-1")
    begin = now_ms() - age_ms
    with Load(flow.source, [topic_name], per_second=6000, timestamp=lambda i: begin + i // 100):
        lease = flow.lease(topic_name, once=False, seconds=6)
        first = flow.start(lease=lease)
        eventually(lambda: sum(flow.offsets(flow.target, topic_name).values()) > 3000)
        second = flow.start(lease=lease)
        first.report()
        second.report()
    until_equal(flow, topic_name, uncommitted=not age_ms)


@pytest.mark.wide
@pytest.mark.parametrize("age_ms", [in_soak(0), _OLD_MS], ids=["live", "bulk"])
def test_a_zombie_wakes_up_after_its_successor_is_done(flow: Flow, topic_name: str, age_ms: int) -> None:
    """SIGSTOP in mid-copy, a second task copies all, SIGCONT: what the first holds goes nowhere."""
    flow.create_both(topic_name, 2, retention_ms="-1")
    begin = now_ms() - age_ms
    fill(flow.source, topic_name, 200_000, timestamp=lambda i: begin + i // 1000, compression_type="lz4")
    zombie = flow.start(topic_name, seconds=10, grace=1)
    eventually(lambda: sum(flow.offsets(flow.target, topic_name, committed=False).values()) > 1000)
    zombie.freeze()
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=not age_ms)
    ends = flow.offsets(flow.target, topic_name)
    zombie.resume()
    zombie.report()
    assert flow.offsets(flow.target, topic_name) == ends
    fill(flow.source, topic_name, 1000)
    flow.copy(topic_name)
    check_copy(flow, topic_name, uncommitted=not age_ms)


@pytest.mark.soak
def test_a_zombie_wakes_up_when_the_target_has_forgotten_the_producer(
    cluster_factory, source: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    """Then the sequence protects nothing any more; what holds the zombie back is its deadline.

    Until the second task is done the records must be younger than that, as in every lease of live mode.
    """
    properties = {"producer.id.expiration.ms": "15000", "producer.id.expiration.check.interval.ms": "300"}
    flow = flow_factory(source, cluster_factory("forgets-soon", properties=properties))
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 300_000, compression_type="lz4", size=200)
    zombie = flow.start(topic_name, seconds=6, grace=1)
    eventually(lambda: sum(flow.offsets(flow.target, topic_name).values()) > 1000)
    zombie.freeze()
    flow.copy(topic_name)
    eventually(lambda: not flow.producers(topic_name, 0) and not flow.producers(topic_name, 1))
    zombie.resume()
    zombie.report()
    check_copy(flow, topic_name)


@pytest.mark.soak
def test_frozen_for_a_moment_among_others(flow: Flow, topic_name: str) -> None:
    """Tasks that stop and go in turn, with the same lease: each finds the other's records."""
    chance = random.Random(4)
    flow.create_both(topic_name, 3)
    with Load(flow.source, [topic_name], per_second=6000):
        lease = flow.lease(topic_name, once=False, seconds=8)
        tasks = [flow.start(lease=lease) for _ in range(2)]
        for turn in range(6):
            frozen = tasks[turn % 2]
            frozen.freeze()
            tasks[1 - turn % 2].ended_within(chance.uniform(0.1, 0.6))
            frozen.resume()
        for task in tasks:
            task.report()
    until_equal(flow, topic_name)
