"""drkit's own writers after FREEZE: every partition refuses them, also one that was frozen and wakes up."""

from __future__ import annotations

import signal

from confluent_kafka import Producer
import pytest

from drkit.clock import monotonic
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.own_writers import fence
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.transactions import ProducerIdentity, new_producer_id
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.world import World
from tests.support.flows.turning import aborts
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


def test_every_partition_proves_it_and_without_a_marker_none_does(world: World):
    topic = world.name("copy")
    world.create(world.target, topic, 3, {})
    loop = EventLoop()
    target = RawCluster(loop, world.target, "test")
    loop.run(target.connect)
    ours: ProducerIdentity = loop.run(new_producer_id, target)
    writers = {TopicPartition(topic, p): (ProducerIdentity(ours.id, ours.epoch + 1),) for p in range(3)}

    async def go(*, effects: bool, seconds: float = 30.0):
        return await fence(target, writers, monotonic() + seconds, decide=aborts if effects else None)

    before = loop.run(lambda: go(effects=False, seconds=0.0))
    assert before.keys() == writers.keys()
    for _ in range(2):
        assert not loop.run(lambda: go(effects=True))
    assert not loop.run(lambda: go(effects=False))
    assert not any(world.records(world.target, topic).values()), "neither markers nor canaries are records"
    target.close()
    loop.close()


@pytest.mark.wide
def test_a_partition_whose_leader_is_down_is_waited_for(
    world_factory: WorldFactory, module_cluster: ModuleClusters, source: LocalCluster
):
    pair = module_cluster("two", brokers=2)
    world: World = world_factory(source, pair)
    topic = world.name("copy")
    world.create(world.target, topic, 4, {}, replicas=1)
    loop = EventLoop()
    target = RawCluster(loop, world.target, "test")
    loop.run(target.connect)
    ours: ProducerIdentity = loop.run(new_producer_id, target)
    writers = {TopicPartition(topic, p): (ProducerIdentity(ours.id, 1),) for p in range(4)}
    pair.broker(1).kill()

    async def go(seconds: float):
        return await fence(target, writers, monotonic() + seconds, decide=aborts)

    early = loop.run(lambda: go(1.0))
    assert early
    pair.restart()
    late = loop.run(lambda: go(60.0))
    assert not late
    target.close()
    loop.close()


@pytest.mark.wide
def test_a_replicator_that_wakes_up_after_the_opening_writes_nothing(world: World):
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    world.failover_fields |= {"rpo_seconds": 1000.0, "fence": {"means": "none"}}
    world.replicate()
    world.copied([topic])
    replicator = world._replicator
    assert replicator is not None
    replicator.send_signal(signal.SIGSTOP)
    with world.desk() as desk:
        report = desk.begin((), RunRequest(accept_data_loss="for the test"))
    assert report["state"] == "done"
    before = {p: len(r) for p, r in world.records(world.target, topic).items()}
    out = Producer({"bootstrap.servers": world.source.bootstrap_servers})
    for i in range(200):
        out.produce(topic, b"late %d" % i)
    assert out.flush(20) == 0

    def beats() -> int:
        return sum(map(len, world.records(world.target, f"{world.source.alias}.heartbeats").values()))

    asleep = beats()
    replicator.send_signal(signal.SIGCONT)
    eventually(lambda: beats() > asleep, 60, "it is awake, and copies heartbeats")
    assert {p: len(r) for p, r in world.records(world.target, topic).items()} == before
