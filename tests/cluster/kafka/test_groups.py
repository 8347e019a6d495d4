"""Consumer groups of real brokers: classic, KIP-848 and static members; offsets read, changed and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
import time
from typing import Any, TypeVar

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConsumerPartition
from confluent_kafka.admin import AdminClient, NewTopic
import pytest

from drkit.config import ClusterSettings
from drkit.kafka.groups.requests import CLASSIC, CONSUMER, DEAD, EMPTY, Committed, Groups
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.shared_clusters import ClusterFactory

T = TypeVar("T")
UNKNOWN_MEMBER = 25
UNKNOWN_TOPIC = 3
NON_EMPTY_GROUP = 68


def ask(cluster: LocalCluster, question: Callable[[Groups], Awaitable[T]]) -> T:
    """Ask one thing about the groups of a cluster."""
    loop = EventLoop()
    raw = RawCluster(loop, ClusterSettings(alias="c", bootstrap_servers=cluster.bootstrap()), "test")

    async def go() -> T:
        await raw.connected()
        return await question(Groups(raw))

    try:
        found: T = loop.run(go)
        return found
    finally:
        raw.close()
        loop.close()


def topic(cluster: LocalCluster, name: str, records: int = 10) -> TopicPartition:
    """A topic that every broker knows: the coordinator of a commit may be any of them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    out = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"})
    for i in range(records):
        out.produce(name, b"%d" % i, partition=0)
    assert out.flush(30) == 0
    return TopicPartition(name, 0)


async def known(groups: Groups, at: TopicPartition) -> None:
    """Until every broker has heard of a new topic, some coordinator may refuse it."""
    deadline = time.monotonic() + 30
    probes = {f"probe{i}": {at: Committed(0)} for i in range(50)}
    while any((a.value or {}).get(at) for a in (await groups.alter(probes)).values()):
        assert time.monotonic() < deadline, f"{at} stays unknown"
    assert set((await groups.delete(probes)).values()) == {0}


@contextmanager
def member(cluster: LocalCluster, group: str, name: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that has joined its group and got a record."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{k.replace("_", "."): v for k, v in more.items()},
        }
    )
    try:
        consumer.subscribe([name])
        deadline = time.monotonic() + 30
        while (message := consumer.poll(0.2)) is None or message.error() is not None:
            assert time.monotonic() < deadline, f"{group} got nothing"
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_live_group_is_seen_and_never_changed(target: LocalCluster, topic_name: str, protocol: str) -> None:
    at = topic(target, topic_name)
    group = f"g-{topic_name}"
    with member(target, group, topic_name, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[ConsumerPartition(topic_name, 0, 1)], asynchronous=False)
        listed = ask(target, Groups.listed)[group]
        assert (listed.state, listed.type, listed.protocol) == ("Stable", protocol, "consumer")
        found = ask(target, lambda g: g.describe([group]))[group].value
        assert found is not None
        assert (found.state, found.type, len(found.members), found.static) == ("Stable", protocol, 1, ())
        assert found.members[0].host
        before = ask(target, lambda g: g.committed([group]))[group].value
        refused = ask(target, lambda g: g.alter({group: {at: Committed(9)}}))[group]
        assert refused.error == UNKNOWN_MEMBER
        assert refused.value == {at: UNKNOWN_MEMBER}
        assert ask(target, lambda g: g.committed([group]))[group].value == before == {at: Committed(1)}
        assert ask(target, lambda g: g.delete([group])) == {group: NON_EMPTY_GROUP}
    assert ask(target, Groups.listed)[group].state == EMPTY
    stored = ask(target, lambda g: g.alter({group: {at: Committed(7, "of ours")}}))[group]
    assert stored.value == {at: 0}
    with member(target, group, topic_name, group_protocol=protocol) as consumer:
        assert consumer.position(consumer.assignment())[0].offset == 8


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_static_member_that_closed_is_still_a_member(
    target: LocalCluster, topic_name: str, protocol: str
) -> None:
    topic(target, topic_name)
    group = f"g-{topic_name}"
    with member(target, group, topic_name, group_protocol=protocol, group_instance_id="one"):
        pass
    found = ask(target, lambda g: g.describe([group]))[group].value
    assert found is not None
    assert [m.instance for m in found.static] == ["one"]
    assert found.state != EMPTY


@pytest.mark.wide
def test_offsets_of_many_groups_on_several_brokers(cluster_factory: ClusterFactory, topic_name: str) -> None:
    """A new cluster: its coordinators load with the first commit, and every broker has some."""
    cluster = cluster_factory(brokers=3)
    at = topic(cluster, topic_name)
    wanted = {f"g{i}": {at: Committed(i % 11, f"of {i}")} for i in range(250)}

    async def work(groups: Groups) -> None:
        await known(groups, at)
        stored = await groups.alter(wanted)
        assert {g: a.value for g, a in stored.items()} == {g: {at: 0} for g in wanted}
        found = await groups.committed([*wanted, "missing"])
        assert {g: a.value for g, a in found.items()} == {**wanted, "missing": {}}
        listed = await groups.listed()
        assert {g: (x.state, x.protocol) for g, x in listed.items()} == dict.fromkeys(wanted, (EMPTY, ""))
        assert await groups.delete(["g0", "g1", "missing"]) == {"g0": 0, "g1": 0, "missing": 0}
        gone = await groups.describe(["g0", "g2"])
        assert {g: a.value and a.value.state for g, a in gone.items()} == {"g0": DEAD, "g2": EMPTY}

    ask(cluster, work)


def test_what_a_broker_stores_of_a_group_is_reported_by_partition(
    target: LocalCluster, topic_name: str
) -> None:
    at = topic(target, topic_name)
    group, missing = f"g-{topic_name}", TopicPartition("no-such-topic", 0)

    async def work(groups: Groups) -> None:
        answer = (await groups.alter({group: {at: Committed(3), missing: Committed(4)}}))[group]
        assert answer.error == 0
        assert answer.value == {at: 0, missing: UNKNOWN_TOPIC}
        assert (await groups.committed([group]))[group].value == {at: Committed(3)}
        assert (await groups.delete_offsets(group, [at])).value == {at: 0}
        assert (await groups.committed([group]))[group].value == {}

    ask(target, work)


def test_a_cluster_without_the_consumer_protocol_has_dead_groups_all_the_same(
    cluster_factory: ClusterFactory, topic_name: str
) -> None:
    """As with brokers of 3.x, which list the request of KIP-848 and refuse it: no offset was ever written."""
    classic = {"group.coordinator.rebalance.protocols": "classic"}
    cluster = cluster_factory("classic", properties=classic)
    at = topic(cluster, topic_name)

    async def question(groups: Groups) -> tuple[Any, Any]:
        await known(groups, at)
        dead = (await groups.describe(["new"]))["new"]
        return dead, await groups.knows_consumer_groups()

    dead, has_protocol = ask(cluster, question)
    assert (dead.error, dead.value.state, has_protocol) == (0, DEAD, False)
