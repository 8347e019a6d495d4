"""Records that are not copied yet are counted from the cut on, of every producer."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.failover.loss.gap import count_gaps
from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import describe_producers, metadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange, waiting
from tests.support.flows.flow import Flow
from tests.support.flows.produce import producer, put


@pytest.mark.parametrize(
    ("cut", "counted"), [(None, 0), (0, 20), (12, 8), (20, 0)], ids=["no", "first", "between", "last"]
)
def test_records_of_the_other_flow_count_from_the_cut_on(
    flow: Flow, topic_name: str, cut: int | None, counted: int
) -> None:
    flow.create_both(topic_name, 1)
    at = TopicPartition(topic_name, 0)
    out = producer(flow.source, enable_idempotence=True)
    for size in (12, 8):
        for i in range(size):
            put(out, topic_name, b"v%d" % i, b"k", partition=0)
        assert out.flush(30) == 0

    async def ask(source: RawCluster) -> Any:
        topics = await metadata(source, [topic_name])
        node = topics[topic_name].leaders[0].node
        _, known = (await describe_producers(source, node, [at]))[at]
        left_out = LeftOut(frozenset(known), {} if cut is None else {at: cut})
        gap = UncopiedRange(at, 0, 20)
        return await count_gaps(source, [gap], left_out), await waiting(source, topics, [gap], left_out)

    lost, lag = flow.ask(flow.source, ask)
    assert (lost[at].records, lost[at].next_offset) == (counted, 20)
    assert (lag[at].records, lag[at].exact) == (counted, True)
