"""Fences by ACL on clusters with an authorizer: put up, proven, lifted, kept to themselves, taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
import pytest

from drkit.config import ClusterSettings
from drkit.errors import Refused
from drkit.failover.context import Request
from drkit.failover.fence_means import ACL, SIZE, AclFence, choose
from drkit.failover.fence_proof import Proof, prove
from drkit.kafka.client_config import confluent_config
from drkit.local.cluster import LocalCluster
from drkit.replicate.acl_sync import FENCE_ACLS
from drkit.topology.acls import EVERYBODY
from tests.failover.conftest import WorldFactory
from tests.failover.orchestrator import Orchestrators
from tests.replicate.acl_world import Shared, World, connect
from tests.replicate.process import eventually

CANARY = {"sasl.username": "app", "sasl.password": "app-password"}
Worlds = Callable[..., World]


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with Shared() as made:
        yield made


@pytest.fixture
def worlds(shared: Shared) -> Iterator[Worlds]:
    made: list[World] = []

    def make(source: LocalCluster) -> World:
        made.append(World(source, shared.locked))
        made[-1].state.load()
        return made[-1]

    yield make
    for world in made:
        world.close()


class App:
    """An application's producer that goes on over the fence, and its reader."""

    def __init__(self, settings: ClusterSettings, topic: str) -> None:
        self._config, self._topic = {**confluent_config(settings), "log_level": 0}, topic
        self._out = Producer({**self._config, "topic.metadata.refresh.interval.ms": 500})

    def write(self) -> int:
        """The code that one record is answered with, 0 for fine."""
        heard: list[KafkaError | None] = []
        try:
            self._out.produce(
                self._topic, b"x", partition=0, on_delivery=lambda error, _: heard.append(error)
            )
        except KafkaException as refused:  # known from the last answer, until the next look
            return int(refused.args[0].code())
        self._out.flush(15)
        return heard[0].code() if heard[0] is not None else 0

    def read(self) -> None:
        """The first record; that nobody has let its group in is no matter here."""
        consumer = Consumer({**self._config, "group.id": "app", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        try:
            eventually(lambda: any(m.error() is None for m in consumer.consume(10, 0.1)), 15, "a record")
        finally:
            consumer.close()


def as_app(cluster: LocalCluster, topic: str) -> App:
    return App(connect(cluster, "x", "app").settings, topic)


def proven(world: World, topic: str, seconds: float = 10.0) -> Proof:
    return prove(world.source.settings, CANARY, [topic], seconds)


def test_on_a_locked_cluster_writers_are_denied_and_nothing_else_changes(worlds: Worlds, shared: Shared):
    world = worlds(shared.source)
    topic, other = world.topic("orders"), world.topic("other")
    mine = world.acl(topic, "WRITE", "User:bob", deny=True)  # it was there before: it stays
    world.give(0, world.acl(topic, "WRITE"), world.acl(topic), world.acl(other, "WRITE"),
               world.acl(world.name("ord"), "ALL", "User:bob", prefixed=True), mine)  # fmt: skip
    before, app = world.has(0), as_app(shared.source, topic)
    eventually(lambda: app.write() == 0, what="writing")
    assert not proven(world, topic, 0).is_whole, "an open topic must not pass as fenced"
    fence = AclFence(world.source.settings, world.state, spare_own=True)
    for _ in range(2):  # repeated, it still knows what is its own
        details = fence.details([topic])
        fence.raise_(details)
    assert proven(world, topic).is_whole
    assert app.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    app.read()
    assert as_app(shared.source, other).write() == 0
    assert world.has(0) - before == {world.acl(topic, "WRITE", deny=True)}
    fence.lift(details)
    fence.lift(details)
    assert world.has(0) == before
    assert FENCE_ACLS not in world.state.values
    eventually(lambda: app.write() == 0, what="the same producer goes on")


def test_on_an_open_cluster_everybody_still_reads_and_lifting_leaves_no_acl(worlds: Worlds, shared: Shared):
    world = worlds(shared.open)
    topic = world.topic("orders")
    app = as_app(shared.open, topic)
    assert app.write() == 0
    with pytest.raises(Refused, match="open topics to readers"):
        AclFence(world.source.settings, world.state, spare_own=True).details([topic])
    unknown = choose("auto", world.source.settings, world.state, spare_own=True, topics=[topic])
    assert unknown is not None
    assert unknown.name == SIZE, "nobody is let in by guess"

    told = world.source.settings.model_copy(update={"allow_everyone_if_no_acl_found": True})
    fence = choose("auto", told, world.state, spare_own=True, topics=[topic])
    assert fence is not None
    assert fence.name == ACL
    details = fence.details([topic])
    fence.raise_(details)
    assert proven(world, topic).is_whole
    assert app.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    app.read()
    assert {a.principal for a in world.has(0) if not a.denies} == {EVERYBODY, "User:admin"}
    assert not [a for a in world.has(0) if a.denies]
    fence.lift(details)
    assert world.has(0) == set()
    eventually(lambda: app.write() == 0, what="writing again")


def test_drkit_is_never_refused_where_it_is_to_be_spared(worlds: Worlds, shared: Shared):
    """A DENY of everybody wins over every ALLOW: nobody puts one up."""
    world = worlds(shared.source)
    topic = world.topic("orders")
    world.give(0, world.acl(topic, "WRITE", EVERYBODY))
    before = world.has(0)
    with pytest.raises(Refused, match="would refuse drkit itself") as refused:
        AclFence(world.source.settings, world.state, spare_own=True).details([topic])
    assert EVERYBODY in refused.value.evidence
    assert "canary" in refused.value.hint
    assert world.has(0) == before
    assert AclFence(world.source.settings, world.state, spare_own=False).details([topic])["acls"]


def test_no_acl_of_a_fence_reaches_the_other_cluster(worlds: Worlds, shared: Shared):
    world = worlds(shared.source)
    topic = world.topic("orders")
    world.give(0, world.acl(topic, "WRITE"), world.acl(topic))
    world.sync().look([topic])
    before = world.has()
    fence = AclFence(world.source.settings, world.state, spare_own=True)
    details = fence.details([topic])
    fence.raise_(details)
    assert any(a.denies for a in world.has(0))
    assert not world.sync().look([topic]).changes
    fence.lift(details)
    assert not world.sync().look([topic]).changes
    assert world.has() == before


def test_a_failover_is_held_and_taken_back_by_who_passes_every_acl_then_moves_with_a_canary(
    world_factory: WorldFactory, worlds: Worlds, shared: Shared
):
    world, rights = world_factory(shared.source, shared.locked), worlds(shared.source)
    topic, rights.tag = world.name("orders"), world.tag
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    given = {rights.acl(topic, "WRITE"), rights.acl(topic)}
    rights.give(0, *given)

    there, here = as_app(shared.source, topic), as_app(shared.locked, topic)
    eventually(lambda: there.write() == 0, what="writing")
    world.failover_fields |= {"rpo_seconds": 1000.0}
    world.failover_fields["fence"] = {"seconds": 0.5}
    world.replicate()
    world.copied([topic])
    with Orchestrators() as others:
        held = others.run(world.plain(), "begin", groups=[]).error
        assert held is not None
        assert "still take writes" in held["error"]
        assert "canary" in held["hint"]
        assert rights.has(0) > given, "held: the fence stays up"
        report = others.run(world.plain(), "abort").report
        assert report is not None
        assert report["state"] == "aborted"
    assert rights.has(0) == given
    assert there.write() == 0
    assert here.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    world.failover_fields["fence"] = {"canary": CANARY}
    world.copied([topic])
    with world.desk() as desk:
        assert desk.begin((), Request())["state"] == "done"
    assert there.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: here.write() == 0, what="what the ACLs let producers do is given")
    assert not [a for a in rights.has(1) if a.denies]
