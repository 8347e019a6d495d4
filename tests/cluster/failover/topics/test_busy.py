"""Clients write to a topic and a group commits in it during a dry run of a switchover."""

from __future__ import annotations

import pytest

from drkit.failover.core.request import RunRequest
from drkit.journal.machine import StepName
from drkit.model import TopicPartition
from tests.support.failover.world import World
from tests.support.flows.beside import SideJobs
from tests.support.flows.produce import Load, fill
from tests.support.waiting import eventually

DRY_RUNS = 5


class Reader(SideJobs):
    """A member that commits all that it reads at once."""

    def __init__(self, world: World, group: str, topic: str) -> None:
        super().__init__()
        self._world, self._group, self._topic = world, group, topic

    def _run(self) -> None:
        consumer = self._world.consumer(self._world.source, self._group)
        consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                if consumer.consume(1000, 0.01):
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()


@pytest.mark.wide
def test_a_dry_run_takes_no_record_for_a_transaction_and_no_commit_for_one_past_the_end(world: World) -> None:
    """The ends of both logs, the high watermark and the offsets of groups are read one after the other."""
    topic, group = world.name("orders"), world.name("shop")
    world.create(world.source, topic, 3, {"retention.ms": "-1"})
    fill(world.source, topic, 60)
    world.commit(world.source, group, {TopicPartition(topic, n): 1 for n in range(3)})
    world.replicate()
    world.copied([topic], {group: None})
    with (
        Load(world.source, [topic], per_second=500, transactions=False) as load,
        Reader(world, group, topic),
        world.desk() as desk,
    ):
        at = TopicPartition(topic, 0)
        eventually(lambda: world.committed(world.source, group)[at].offset > 1, what="commits")
        found = [desk.rehearse([], RunRequest(planned=True)) for _ in range(DRY_RUNS)]
    assert load.count > 0
    whys = [x.effect.why for f in found for x in f.lines if x.step is StepName.DRAIN]
    assert len(whys) == DRY_RUNS
    assert not [why for why in whys if "open transaction" in why]
    translated = [x.effect for f in found for x in f.lines if x.step is StepName.TRANSLATE]
    assert translated
    assert not [(e.what, e.why) for e in translated if "no exact position" in e.what]
