"""A second writer, or a name that cannot be, is refused topic by topic.

P7: two flows that would copy the same topic twice are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import group_members
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, topic_names
from drkit.local import jars
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.java import find_java
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topic_sync.sync import TopicSync
from tests.bench.peers.replicator import Flow as PeerFlow
from tests.bench.peers.replicator import running
from tests.support.errors import sentence
from tests.support.flows.compare import read
from tests.support.flows.produce import fill
from tests.support.mm2.mirror_maker import QuickMirrorMaker
from tests.support.stored import put as put_record
from tests.support.stored import stored
from tests.support.waiting import eventually

ClusterFactory = Callable[..., LocalCluster]


class Fan:
    """Flows from different sources to one target, as far as their topics go; no records are copied."""

    def __init__(self, target: LocalCluster, **sources: LocalCluster) -> None:
        self.tag = uuid.uuid4().hex[:6]
        self.target = self._connect("t", target)
        self.sources = {name: self._connect(name, cluster) for name, cluster in sources.items()}
        self.states: dict[str, StateTopic] = {}
        self.syncs: dict[str, TopicSync] = {}

    def _connect(self, name: str, cluster: LocalCluster) -> Cluster:
        return Cluster.connect(
            ClusterSettings(alias=f"{name}{self.tag}", bootstrap_servers=cluster.bootstrap())
        )

    def create(self, name: str, cluster: Cluster) -> str:
        full = name.replace("TAG", self.tag)
        assert not create_topics(cluster, [TopicPlan(full, 1, 1)])
        eventually(lambda: full in topic_names(cluster), what=full)
        return full

    def begin(self, name: str, **more: object) -> None:
        """Begin the flow from a source, with the same names unless told otherwise."""
        alias = self.sources[name].alias
        quiet = {"emit_heartbeats": False, "heartbeats_replication": False}
        topics = [f".*{self.tag}-.*"]
        flow = FlowSettings.model_validate(
            {"source": alias, "target": self.target.alias, "topics": topics, **quiet, **more}
        )
        ensure_state_topic(self.target, flow)
        state = self.states[name] = StateTopic(self.target.settings, alias)
        state.load()
        self.syncs[name] = TopicSync(self.sources[name], self.target, flow, state)

    def look(self, name: str) -> TopicSyncResult:
        return self.syncs[name].look()

    def refusal(self, name: str, topic: str) -> dict[str, str]:
        """The event that says why a topic is left out."""
        body = stored(self.states[name])[f"event/topic_left_out/{topic}/-1"]
        assert body["hint"], "every refusal says what to change"
        return {k: str(body[k]) for k in ("reason", "evidence", "hint")}

    def close(self) -> None:
        for state in self.states.values():
            state.close()


@pytest.fixture
def fan(source: LocalCluster, target: LocalCluster) -> Iterator[Fan]:
    # Two aliases of one cluster do: only topics are looked at, and both flows have their own state.
    made = Fan(target, a=source, b=source)
    yield made
    made.close()


def test_a_second_flow_into_the_same_topic_is_refused_by_name(fan: Fan):
    """P7: two flows that would copy the same topic twice are refused, by name."""
    orders = fan.create("TAG-orders", fan.sources["a"])
    fan.begin("a")
    assert orders in fan.look("a").copied
    users = fan.create("TAG-users", fan.sources["b"])
    fan.begin("b")

    found = fan.look("b")

    assert set(found.copied) == {users}, "other topics are copied"
    told = fan.refusal("b", orders)
    target_id = describe_topics(fan.target, [orders])[orders].topic_id
    assert "another drkit flow" in told["reason"]
    assert fan.sources["a"].alias in told["evidence"]
    assert str(target_id) in told["evidence"]
    assert "prefix" in told["hint"]
    assert GenerationRecord.key(orders) not in stored(fan.states["b"])
    assert orders in fan.look("a").copied, "the first flow continues"
    assert users in fan.look("a").left_out


def test_of_two_flows_that_began_at_once_one_continues(fan: Fan):
    orders = fan.create("TAG-orders", fan.sources["a"])
    for name in ("a", "b"):
        fan.begin(name)
    entry = None
    assert orders in fan.look("a").copied
    entry = stored(fan.states["a"])[GenerationRecord.key(orders)]
    put_record(fan.states["b"], GenerationRecord.key(orders), entry)
    for name in ("a", "b"):  # a new look, as after a minute
        fan.begin(name)

    assert orders in fan.look("a").copied
    assert orders in fan.look("b").left_out


def test_a_record_of_a_topic_that_was_deleted_since_is_no_claim(fan: Fan):
    orders = fan.create("TAG-orders", fan.sources["a"])
    fan.begin("a")
    put_record(
        fan.states["a"],
        GenerationRecord.key(orders),
        {"source_id": str(uuid.uuid4()), "target": orders, "target_id": str(uuid.uuid4()), "generation": 1},
    )
    fan.begin("b")
    assert orders in fan.look("b").copied


def test_prefixes_keep_two_flows_apart(fan: Fan):
    """P5, P6: prefixed names let two sources flow into one target."""
    orders = fan.create("TAG-orders", fan.sources["a"])
    for name in ("a", "b"):
        fan.begin(name, naming="prefix", topics=[f"{fan.tag}-.*"])
        assert fan.look(name).copied[orders].target_name == f"{fan.sources[name].alias}.{orders}"


def test_names_that_cannot_be_are_left_out_and_others_are_copied(fan: Fan):
    """P11: nothing is created for names that cannot be; other topics are copied."""
    alias = fan.sources["a"].alias
    good = fan.create("TAG-orders", fan.sources["a"])
    long = fan.create("TAG-" + "x" * 240, fan.sources["a"])
    local = fan.create(f"{alias}.TAG-orders", fan.sources["a"])
    dotted = fan.create("TAG-eu.orders", fan.sources["a"])
    fan.create(f"{alias}_TAG-eu_orders", fan.target)
    before = set(topic_names(fan.target))
    fan.begin("a", naming="prefix")

    found = fan.look("a")

    assert set(found.copied) == {good}
    assert set(found.left_out) == {long, local, dotted}
    assert {n for n in set(topic_names(fan.target)) - before if fan.tag + "-" in n} == {f"{alias}.{good}"}
    assert "249" in fan.refusal("a", long)["evidence"]
    assert "copied twice" in fan.refusal("a", local)["evidence"]
    assert f"{alias}_{fan.tag}-eu_orders exists on the target" in fan.refusal("a", dotted)["evidence"]


@pytest.fixture
def own_pair(cluster_factory: ClusterFactory) -> tuple[LocalCluster, LocalCluster]:
    """MM2's topics have fixed names: they are not to be left on clusters that other tests share."""
    both = cluster_factory("mm2source", start=False), cluster_factory("mm2target", start=False)
    start_together(*both)
    return both


@pytest.mark.wide
def test_a_running_mirrormaker_keeps_its_topic(own_pair: tuple[LocalCluster, LocalCluster], tmp_path: Path):
    """P7: a topic that a running MirrorMaker 2 copies is not copied a second time."""
    a, t = own_pair
    fan = Fan(t, a=a)
    orders = fan.create("TAG-orders", fan.sources["a"])
    users = fan.create("TAG-users", fan.sources["a"])
    fill(fan.sources["a"].settings, orders, 20)
    mm2 = QuickMirrorMaker(str(find_java()), jars.classpath(modules=jars.MIRROR_MAKER))
    try:
        with running(mm2, PeerFlow(a.bootstrap(), t.bootstrap(), orders, "none", tmp_path)) as peer:

            def copied() -> bool:
                """Its tasks work: before they are configured it is unknown what MM2 is going to copy."""
                peer.check()
                there = orders in topic_names(fan.target)
                return there and sum(map(len, read(fan.target.settings, orders).values())) == 20

            eventually(copied, what="MM2's copy")
            fan.begin("a")

            found = fan.look("a")

            assert set(found.copied) == {users}, "other topics are copied"
            told = fan.refusal("a", orders)
            assert "running MirrorMaker 2" in told["reason"]
            assert f"copies {orders} of source to {orders}" in told["evidence"]
            assert "source-mm2" in told["evidence"]
        eventually(
            lambda: not group_members(fan.target.settings, ["source-mm2"])["source-mm2"],
            what="the end of MM2's group",
        )
        # No longer its topic, but its records are still there: a second copy would duplicate them.
        assert orders not in fan.look("a").copied
        told = fan.refusal("a", orders)
        assert told["reason"] == sentence("foreign_records_in_copy")
        assert "takeover_from_mm2 = true" in told["hint"]
    finally:
        fan.close()
