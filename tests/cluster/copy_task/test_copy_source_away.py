"""A source that is away, leaderless, silent or failing: it is reported, and copying continues with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from drkit.copy_task.core.context import SAY_AT
from drkit.local.cluster import LocalCluster
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import check_copy
from tests.support.flows.copying import copying
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill
from tests.support.shared_clusters import own_cluster
from tests.support.waiting import eventually

EPOCH_SECONDS = 300.0
"""Longer than any of these tests: what they wait for happens within one epoch."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[LocalCluster]:
    cluster = own_cluster("source-away", brokers=3, heap="192m")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def three(brokers: LocalCluster) -> Iterator[LocalCluster]:
    """A source of three brokers, to be killed and frozen; whole again for the next test."""
    yield brokers
    brokers.resume()
    brokers.restart()


def copied(flow: Flow, topic: str, records: int) -> None:
    """Wait until the target has `records` records."""
    eventually(lambda: sum(flow.offsets(flow.target, topic).values()) == records, 90, f"{records} records")


def reported(flow: Flow, kind: str) -> None:
    """Wait for an event."""
    eventually(lambda: flow.events(kind), 90, kind)


@pytest.mark.wide
def test_a_source_that_is_away_when_an_epoch_begins(
    three: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    flow = flow_factory(three, target)
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    fill(flow.source, topic_name, 100, first=100)
    lease = flow.lease(topic_name, once=False, seconds=EPOCH_SECONDS)
    three.kill()
    with copying(flow, lease):
        reported(flow, "source_unavailable")
        three.restart()
        copied(flow, topic_name, 200)
        reported(flow, "source_available")
    check_copy(flow, topic_name)


@pytest.mark.wide
def test_a_partition_that_has_no_leader_for_a_while(
    three: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    flow = flow_factory(three, target)
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.start(topic_name, once=False, seconds=EPOCH_SECONDS)
    copied(flow, topic_name, 100)
    broker = three.broker(flow.topic(flow.source, topic_name).leaders[0].node)
    broker.kill()
    eventually(lambda: flow.topic(flow.source, topic_name).leaders[0].node < 0, what="no leader")
    reported(flow, "source_unavailable")
    three.restart()
    fill(flow.source, topic_name, 100, first=100)
    copied(flow, topic_name, 200)
    reported(flow, "source_available")
    events = flow.events("source_unavailable")
    assert {(e["topic"], e["partition"]) for e in events} == {(topic_name, 0)}
    assert {e["tries"] for e in events} <= SAY_AT
    assert all(e["reason"] for e in events)


@pytest.mark.soak
def test_a_leader_that_does_not_answer_a_fetch_is_not_waited_for(
    three: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    """However long its answer may take: its successor is asked beside it."""
    flow = flow_factory(three, target, source_consumer={"request.timeout.ms": "600000"})
    flow.create(flow.source, topic_name, 1, {}, replicas=3)
    flow.create(flow.target, topic_name, 1, {"retention.ms": "-1"})
    fill(flow.source, topic_name, 100)
    flow.start(topic_name, once=False, seconds=EPOCH_SECONDS)
    copied(flow, topic_name, 100)
    broker = three.broker(flow.topic(flow.source, topic_name).leaders[0].node)
    others = [s for n, s in enumerate(flow.source.bootstrap_servers.split(",")) if n != broker.node_id]
    alive = flow.source.model_copy(update={"bootstrap_servers": ",".join(others)})
    broker.freeze()
    try:
        with closing(Clusters(alive, flow.target, 1)) as seen:
            eventually(
                lambda: seen.topic(alive, topic_name).leaders[0].node not in {-1, broker.node_id},
                what="a new leader",
            )
        fill(alive, topic_name, 100, first=100)
        copied(flow, topic_name, 200)
    finally:
        broker.resume()
    three.wait_ready()
    fill(flow.source, topic_name, 100, first=200)
    copied(flow, topic_name, 300)
    assert not flow.events("source_diverged")


@pytest.mark.wide
def test_a_partition_that_its_broker_cannot_read_holds_no_other_up(
    three: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    """A batch whose length on the broker's disk is wrong; then the disk is right again."""
    flow = flow_factory(three, target)
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    ends = flow.offsets(flow.source, topic_name)
    node = flow.topic(flow.source, topic_name).leaders[0].node
    log = three.broker(node).folder / "data" / f"{topic_name}-0" / f"{0:020}.log"
    next_batch = log.stat().st_size
    fill(flow.source, topic_name, 100, first=100)
    more = flow.offsets(flow.source, topic_name)
    length = replace(log, next_batch + 8, bytes(4))
    flow.start(topic_name, once=False, seconds=EPOCH_SECONDS)
    reported(flow, "source_unavailable")
    eventually(lambda: flow.offsets(flow.target, topic_name) == {0: ends[0], 1: more[1]}, what="the other")
    (event, *_) = flow.events("source_unavailable")
    assert (event["partition"], event["reason"]) == (0, "CorruptRecordError (2)")
    replace(log, next_batch + 8, length)
    copied(flow, topic_name, 200)
    reported(flow, "source_available")
    assert {e["partition"] for e in flow.events("source_unavailable")} == {0}


def replace(path: Path, position: int, data: bytes) -> bytes:
    """Write bytes into a file. Returns those that were there."""
    with path.open("r+b") as file:
        file.seek(position)
        before = file.read(len(data))
        file.seek(position)
        file.write(data)
    return before
