"""The first map records of a direction are committed, and a coordinator leaves out the marker of the map."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from drkit.kafka.transactions import Transactions, open_on
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.bucket import Pair
from drkit.offset_map.writer import MapWriter
from tests.support.circles import in_wide
from tests.support.failover.open_transaction import all_before_implicit_adding
from tests.support.flows.earlier_task import UNVERIFIED
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.produce import fill
from tests.support.flows.turning import Turning
from tests.support.shared_clusters import ModuleClusters

COPIED, MORE = 90, 10


class Died(Exception):
    """The writer ends in the middle."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dies", [False, in_wide(True)])  # noqa: FBT003  a parameter of the test
def test_the_next_writer_ends_it(
    target: LocalCluster, module_cluster: ModuleClusters, flow_factory: FlowFactory, topic_name: str,
    monkeypatch: pytest.MonkeyPatch, *, dies: bool,
) -> None:  # fmt: skip
    """It is committed if all of it is there, and aborted if its writer died before."""
    other = module_cluster("other", properties=UNVERIFIED)
    there, back = flow_factory(other, target), flow_factory(target, other)
    there.create_both(topic_name, 1)
    turning = Turning(there, back, topic_name)
    fill(there.source, topic_name, COPIED)
    turning.copy()
    turning.now.fence()
    seeds = turning.seeds()
    turning.now, turning.other = turning.other, turning.now
    flow, add, send = turning.now.flow, Transactions.add, MapWriter._send

    async def added(self: Transactions, _partitions: Iterable[TopicPartition]) -> None:
        await add(self, [TopicPartition(flow.state_topic, 0)])

    async def sent(self: MapWriter, written: list[Pair]) -> None:
        in_transaction = self._transactional_id is not None
        await send(self, written[:-1] if dies and in_transaction else written)
        if dies and in_transaction:
            await self._transactions.end(commit=False)
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "add", added)
        patch.setattr(MapWriter, "_send", sent)
        all_before_implicit_adding(patch)
        if dies:
            with pytest.raises(Died):
                turning.write(seeds)
        else:
            turning.write(seeds)

    assert len(flow.ask(flow.target, open_on, [flow.map_topic])) == 1
    if dies:
        turning.write(seeds)
    fill(flow.source, topic_name, MORE, first=1000)
    assert turning.copy().records == MORE
    assert not flow.ask(flow.target, open_on, [flow.map_topic])
    assert turning.is_exact()
