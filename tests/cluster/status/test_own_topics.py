"""A client's transaction that does not end, on one of drkit's topics: brokers compact nothing after it."""

from __future__ import annotations

from contextlib import closing
import uuid

import pytest

from drkit.config import Settings
from drkit.detect.noticeboard import ensure_board
from drkit.detect.noticeboard import topic_name as board_of
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.status.look import StatusCollector
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import producer
from tests.support.waiting import eventually


@pytest.mark.wide
def test_a_transaction_that_stays_open_on_a_topic_of_drkits_is_a_fault(
    source: LocalCluster, target: LocalCluster, topic_name: str
) -> None:
    flow = Flow(source, target, topics=(topic_name,), emit_heartbeats=False, open_transaction_seconds=0.5)
    flow.create_both(topic_name, 1)
    remember(flow, topic_name)
    name, transactional_id = board_of(flow.settings), f"shop-{uuid.uuid4().hex}"
    ensure_board(Cluster.connect(flow.target), flow.settings)
    out = producer(flow.target, transactional_id=transactional_id)
    out.init_transactions(30)
    out.begin_transaction()
    out.produce(name, b"x", b"zzz", partition=0)
    assert out.flush(30) == 0
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(flow.settings,))
    with closing(StatusCollector(settings, flow.settings, groups=False)) as collector:

        def faults() -> list[str]:
            return [f.text for f in collector.look().faults if f.code == "hanging_transaction"]

        (fault,) = eventually(faults, what="the fault")
        assert f"{name}-0 on {flow.target.alias}" in fault
        assert transactional_id in fault
        out.abort_transaction(30)
        eventually(lambda: not faults(), what="its end")
