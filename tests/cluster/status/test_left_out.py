"""Records that are not copied yet: counted from the cut on, of every producer, by a bounded read."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from drkit.failover.loss.count import count_gaps
from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import FetchRequest, describe_producers, metadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange, waiting
from tests.support.flows.flow import Flow
from tests.support.flows.produce import producer, put

_PARTITIONS: Final = 64
_OF_EACH: Final = 32
_VALUE_BYTES: Final = 16_000


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


def test_a_look_at_many_partitions_reads_a_bounded_part_of_them(
    flow: Flow, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.create_both(topic_name, _PARTITIONS)
    out, chance = producer(flow.source, batch_size=_VALUE_BYTES), random.Random(3)
    for i in range(_PARTITIONS * _OF_EACH):
        put(out, topic_name, chance.randbytes(_VALUE_BYTES), b"k", partition=i % _PARTITIONS)
    assert out.flush(60) == 0
    gaps = [UncopiedRange(TopicPartition(topic_name, p), 0, _OF_EACH) for p in range(_PARTITIONS)]
    fetched: list[int] = []
    send = RawCluster.send

    async def counting(self: RawCluster, request: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await send(self, request, *args, **kwargs)
        if isinstance(request, FetchRequest):
            fetched.extend(len(p.records or b"") for t in answer.responses for p in t.partitions)
        return answer

    async def ask(source: RawCluster) -> Any:
        topics = await metadata(source, [topic_name])
        monkeypatch.setattr(RawCluster, "send", counting)
        return await waiting(source, topics, gaps, LeftOut(frozenset(), {}))

    found = flow.ask(flow.source, ask)
    assert len(fetched) == _PARTITIONS
    assert sum(fetched) <= 16 << 20 < _PARTITIONS * _OF_EACH * _VALUE_BYTES
    assert {f.records for f in found.values()} == {_OF_EACH}  # all of one size: the estimate is right
    assert not any(records.exact for records in found.values())
