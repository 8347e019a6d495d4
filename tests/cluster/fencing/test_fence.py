"""Fences on real brokers: applied, proven, lifted; open transactions; a frozen primary stopped or pending."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
import json
import sys
from typing import Any

from confluent_kafka import KafkaError, Producer
from kafka.protocol.metadata import FindCoordinatorRequest
import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import SizeFence, lift_sizes
from drkit.failover.fencing.open_transactions import Resolved, TransactionResolver
from drkit.failover.fencing.proof import prove
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import FenceSizesRecord, PendingFence
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.errors import coded
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.truth import Load
from tests.support.failover.world import World
from tests.support.shared_clusters import ClusterFactory
from tests.support.stored import flow_state, stored
from tests.support.waiting import eventually

SIZE = "max.message.bytes"


def write(world: World, topic: str) -> KafkaError | None:
    """The error that an ordinary producer gets."""
    heard: list[KafkaError | None] = []
    out = Producer({"bootstrap.servers": world.source.bootstrap_servers, "log_level": 0})
    out.produce(topic, b"x", partition=0, on_delivery=lambda error, _: heard.append(error))
    out.flush(20)
    return heard[0]


def set_on(world: World, topic: str) -> str | None:
    found = topic_configs(Cluster.connect(world.source), [topic])[topic][SIZE]
    return found.value if found.is_set_on_topic else None


@pytest.mark.parametrize("before", [None, "2000000"])
def test_the_size_fence_is_put_up_proven_and_lifted_without_residue(world: World, before: str | None):
    topic = world.name("orders")
    world.create(world.source, topic, 3, {SIZE: before} if before else {})
    ensure_state_topic(Cluster.connect(world.target), world.settings.flows[0])
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        fence = SizeFence(world.source, state)
        assert not prove(world.source, {}, [topic]).is_whole, "an open topic must not pass as fenced"
        for _ in range(2):  # repeated, it still knows what was before
            details = fence.details([topic])
            fence.apply(details)
        proof = prove(world.source, {}, [topic], 10)
        assert proof.is_whole
        assert len(proof.refused) == 3
        refused = write(world, topic)
        assert refused is not None
        assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
        fence.remove(details)
        assert FenceSizesRecord.KEY not in stored(state)
    assert set_on(world, topic) == before
    eventually(lambda: write(world, topic) is None, what="writing again")


@pytest.mark.wide
def test_two_that_put_it_up_at_once_both_know_what_was_before(world: World):
    topic, at = world.name("orders"), (world.target, world.source.alias)
    world.create(world.source, topic, 1, {SIZE: "2000000"})
    world.replicate()
    world.copied([topic])
    with StateTopic(*at) as one, StateTopic(*at) as two:
        one.load()
        two.load()
        first, second = SizeFence(world.source, one), SizeFence(world.source, two)
        first.apply(first.details([topic]))
        eventually(lambda: set_on(world, topic) == "0", what="the fence")
        details = second.details([topic])
        second.apply(details)
        assert details == {"sizes": {topic: "2000000"}}
        second.remove(details)
    assert set_on(world, topic) == "2000000"


class OpenTransaction:
    """An open transaction, an active fence or none, and the resolver of transactions."""

    def __init__(self, world: World, state: StateTopic, *, fenced: bool) -> None:
        self.world, self.topic = world, world.name("orders")
        self.out = Producer({
            "bootstrap.servers": world.source.bootstrap_servers, "transactional.id": self.topic,
            "log_level": 0,
        })  # fmt: skip
        self.out.init_transactions(20)
        self.out.begin_transaction()
        self.out.produce(self.topic, b"open", partition=0)
        assert self.out.flush(20) == 0
        self._loop = EventLoop()
        self._source = RawCluster(self._loop, world.source, "test")
        self._loop.run(self._source.connect)
        self.fence = SizeFence(world.source, state) if fenced else None
        self._details = self.fence.details([self.topic]) if self.fence else {}

    def apply(self) -> None:
        if self.fence:
            self.fence.apply(self._details)
            assert prove(self.world.source, {}, [self.topic], 10).is_whole

    def resolver(self, *, aborts: bool, wait_seconds: float = 0.1) -> TransactionResolver:
        fence, details = self.fence, self._details
        return TransactionResolver(
            self._source, [self.topic], wait_seconds=wait_seconds, aborts=aborts,
            suspend=None if fence is None else lambda: lift_sizes(self.world.source, details["sizes"]),
            restore=None if fence is None else self.apply,
        )  # fmt: skip

    def remove(self) -> None:
        if self.fence:
            assert prove(self.world.source, {}, [self.topic], 10).is_whole, "it is active again"
            self.fence.remove(self._details)

    def coordinator(self) -> int:
        """The broker that coordinates it."""
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.topic])
        found = self.world.ask(self.world.source, lambda raw: raw.send(request, timeout_ms=10_000))
        return int(found.coordinators[0].node_id)

    def resolved(self) -> Resolved:
        """How it ended, once the partition's leader answers."""
        found: list[Resolved] = []

        def seen() -> bool:
            with suppress(RawError):
                found.append(self.resolver(aborts=True, wait_seconds=5).run())
            return bool(found and found[-1].seen)

        eventually(seen, what="the open transaction")
        return found[-1]

    def close(self) -> None:
        self._source.close()
        self._loop.close()

    def seen(self) -> list[bytes | None]:
        """What readers of committed records see."""
        (found,) = self.world.records(self.world.source, self.topic).values()
        return [record.value for record in found]


@pytest.fixture
def opened(world: World, request: pytest.FixtureRequest) -> Iterator[OpenTransaction]:
    world.create(world.source, world.name("orders"), 1, {})
    ensure_state_topic(Cluster.connect(world.target), world.settings.flows[0])
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        found = OpenTransaction(world, state, fenced=getattr(request, "param", True))
        yield found
        found.close()


@pytest.mark.parametrize("opened", [False, True], indirect=True, ids=["unfenced", "size"])
def test_open_transactions_are_aborted_also_where_the_fence_refuses_markers(opened: OpenTransaction):
    opened.apply()
    with pytest.raises(Refused, check=coded("open_transactions")) as held:
        opened.resolver(aborts=False).run()
    assert opened.topic in held.value.evidence
    found = opened.resolver(aborts=True).run()
    assert not found.left
    assert not found.marked, "its coordinator sent the marker when it passed"
    ended = [(t["transactional_id"], t["ended"]) for t in found.to_json()["transactions"]]
    assert ended == [(opened.topic, "aborted")]
    opened.remove()
    assert not opened.seen()


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_a_transaction_that_ends_under_the_size_fence_ends_as_its_producer_learned(
    opened: OpenTransaction, *, commits: bool
):
    opened.apply()
    if commits:
        opened.out.commit_transaction(20)
    else:
        opened.out.abort_transaction(20)
    found = opened.resolver(aborts=False, wait_seconds=10).run()
    assert not found.left
    assert found.marked == [opened.topic], "nothing but drkit writes a marker that its coordinator gave up"
    assert not found.aborted, "drkit did not decide that"
    opened.remove()
    assert opened.seen() == ([b"open"] if commits else [])


def test_what_is_open_is_aborted_before_the_size_fence_is_applied(opened: OpenTransaction):
    resolver = opened.resolver(aborts=True)
    resolver.beforehand()
    opened.apply()
    found = resolver.run()
    assert (found.aborted, found.marked, found.left) == (1, [], [])
    opened.remove()
    assert not opened.seen()
    again = Producer({
        "bootstrap.servers": opened.world.source.bootstrap_servers, "transactional.id": opened.topic,
        "log_level": 0,
    })  # fmt: skip
    again.init_transactions(20)


@pytest.mark.wide
def test_what_was_committed_is_not_aborted_while_its_coordinator_is_away(
    world_factory: WorldFactory, cluster_factory: ClusterFactory, target: LocalCluster
):
    """A primary comes back broker by broker."""
    properties = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    primary = cluster_factory("primary", brokers=3, properties=properties)
    world = world_factory(primary, target)
    world.create(world.source, world.name("orders"), 1, {}, replicas=3)
    ensure_state_topic(Cluster.connect(world.target), world.settings.flows[0])
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        opened = OpenTransaction(world, state, fenced=True)
        opened.apply()
        opened.out.commit_transaction(20)
        coordinator = primary.broker(opened.coordinator())
        coordinator.kill()
        found = opened.resolved()
        assert (found.aborted, len(found.left)) == (0, 1), found
        assert found.to_json()["transactions"][0]["ended"].startswith("not aborted: ")
        coordinator.restart()
        found = opened.resolved()
        opened.remove()
        assert (found.aborted, found.left, opened.seen()) == (0, [], [b"open"]), "it is committed"
        opened.close()


def test_a_failover_of_an_answering_primary_fences_it(world: World):
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    world.failover_fields["rpo_seconds"] = 1000.0
    world.replicate()
    world.copied([topic])
    with Load(world.source, [topic]) as load:
        eventually(lambda: load.count > 500, what="load")
        with world.desk() as desk:
            report = desk.begin((), RunRequest())
        acked = load.count
        assert report["state"] == "done"
        eventually(lambda: load.refused, what="a refused record")
        assert load.count <= acked + 1
    assert set_on(world, topic) == "0"
    fence = world.run_log().results
    found = json.dumps({str(k): v for k, v in fence.items()}, default=str)
    assert '"proven": true' in found
    on_source, on_target = world.records(world.source, topic), world.records(world.target, topic)
    assert {p: len(r) for p, r in on_target.items()} == {p: len(r) for p, r in on_source.items()}, (
        "nothing was lost"
    )


@pytest.mark.wide
@pytest.mark.parametrize("hook", [True, in_soak(False)])
def test_a_frozen_primary_is_stopped_by_the_site_or_its_fence_is_pending(
    world_factory: WorldFactory,
    cluster_factory: ClusterFactory,
    target: LocalCluster,
    *,
    hook: bool,
):
    primary = cluster_factory("primary")
    world = world_factory(primary, target)
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    world.failover_fields["rpo_seconds"] = 1000.0
    pids = [b.pid for b in primary.brokers]
    if hook:
        text = f"import os, signal, sys; sys.stdin.read(); [os.kill(p, signal.SIGKILL) for p in {pids}]"
        world.failover_fields["fence"] = {"stop_command": [sys.executable, "-c", text], "stop_seconds": 10.0}
    world.replicate()
    world.copied([topic])
    primary.freeze()
    with world.desk() as desk:
        report: dict[str, Any] = desk.begin((), RunRequest())
    assert report["state"] == "done"
    debt = flow_state(world.state()).get(PendingFence)
    if hook:
        assert debt is None
    else:
        assert debt is not None
        assert debt.topics == (topic,)
        primary.resume()
