"""Fences by ACL on clusters with an authorizer: applied, proven, lifted, limited to the flow, rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError
import pytest

from drkit.errors import Refused
from drkit.failover import pending_fences
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.fencing.choosing import AUTO, Wish, choose
from drkit.failover.fencing.methods import (
    ACL,
    SIZE,
    AclFence,
    Details,
    FenceMethod,
    forget_sizes,
    lift_fence,
    record_acls,
    recorded_acls,
)
from drkit.failover.fencing.proof import Proof, prove
from drkit.failover.pending_fences import TAKEN_AWAY
from drkit.failover.runs import all_steps
from drkit.failover.source_abort import abort_at_source
from drkit.failover.steps.freeze import FreezeStep
from drkit.flow_state.records import FenceAclsRecord, PendingFence
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.topology.acls import EVERYBODY, Acl, from_json
from tests.support.errors import coded, made, sentence
from tests.support.failover.application import CANARY, READER, as_app
from tests.support.failover.orchestrator import Orchestrators
from tests.support.failover.world import World as FailoverWorld
from tests.support.stored import flow_state, stored
from tests.support.topic_sync.acl_world import Shared, World
from tests.support.waiting import eventually

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


def proven(world: World, topic: str, seconds: float = 10.0) -> Proof:
    return prove(world.source.settings, CANARY, [topic], seconds)


def lifted(world: World, details: Details) -> None:
    acls, sizes = from_json(details.get("acls", ())), details.get("sizes", {})
    assert not lift_fence(world.source.settings, sizes, acls)
    record_acls(world.state, recorded_acls(world.state) - acls)
    forget_sizes(world.state, sizes)


def test_on_a_locked_cluster_writers_are_denied_and_nothing_else_changes(worlds: Worlds, shared: Shared):
    world = worlds(shared.source)
    topic, other = world.topic("orders"), world.topic("other")
    mine = world.acl(topic, "WRITE", "User:bob", deny=True)  # it was there before: it stays
    named = world.acl(world.name("ord"), "ALL", "User:bob", prefixed=True)
    world.give(0, world.acl(topic, "WRITE"), world.acl(topic), world.acl(other, "WRITE"), named, mine)
    before, app = world.has(0), as_app(shared.source, topic)
    eventually(lambda: app.write() == 0, what="writing")
    assert not proven(world, topic, 0).is_whole, "an open topic must not pass as fenced"
    fence = AclFence(world.source.settings, world.state, spare_own=True)
    for _ in range(2):  # repeated, it still knows what is its own
        details = fence.details([topic])
        fence.apply(details)
    assert proven(world, topic).is_whole
    assert app.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    app.read()
    assert as_app(shared.source, other).write() == 0
    assert world.has(0) - before == {world.acl(topic, "WRITE", deny=True)}
    lifted(world, details)
    lifted(world, details)
    assert world.has(0) == before
    assert FenceAclsRecord.KEY not in stored(world.state)
    eventually(lambda: app.write() == 0, what="the same producer writes again")


def test_on_an_open_cluster_all_still_read_and_lifting_leaves_no_acl(worlds: Worlds, shared: Shared):
    world = worlds(shared.open)
    topic = world.topic("orders")
    app = as_app(shared.open, topic)
    assert app.write() == 0
    with pytest.raises(Refused, check=coded("acl_fence_opens")):
        AclFence(world.source.settings, world.state, spare_own=True).details([topic])
    unknown = choose(Wish(AUTO, CANARY), world.source.settings, world.state, [topic])
    assert unknown is not None and unknown.name == SIZE, "an ACL fence is not chosen by a guess"  # noqa: PT018

    told = world.source.settings.model_copy(update={"allow_everyone_if_no_acl_found": True})
    fence = choose(Wish(AUTO, CANARY), told, world.state, [topic])
    assert fence is not None
    assert fence.name == ACL
    details = fence.details([topic])
    fence.apply(details)
    assert proven(world, topic).is_whole
    assert app.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    app.read()
    assert {a.principal for a in world.has(0) if not a.denies} == {EVERYBODY, "User:admin"}
    assert not [a for a in world.has(0) if a.denies]
    lifted(world, details)
    assert world.has(0) == set()
    eventually(lambda: app.write() == 0, what="writing again")


def test_drkit_is_never_refused_where_it_is_to_be_spared(worlds: Worlds, shared: Shared):
    """A DENY for all principals wins over every ALLOW, so it would refuse drkit: none is created."""
    world = worlds(shared.source)
    topic = world.topic("orders")
    world.give(0, world.acl(topic, "WRITE", EVERYBODY))
    before = world.has(0)
    with pytest.raises(Refused, check=coded("acl_fence_refuses_drkit")) as refused:
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
    fence.apply(details)
    assert any(a.denies for a in world.has(0))
    assert not world.sync().look([topic]).changes
    lifted(world, details)
    assert not world.sync().look([topic]).changes
    assert world.has() == before


@pytest.mark.parametrize(
    ("canary", "names"),
    [
        ({}, SIZE),  # drkit, here the super user: only a fence that refuses all principals can be proven
        (CANARY, ACL),
        (READER, ""),
    ],
)
def test_a_canary_that_proves_nothing_is_known_before_a_fence_is_put_up(
    worlds: Worlds, shared: Shared, canary: dict[str, str], names: str
):
    """The writer, who is no super user, proves a fence by ACL; who may only read is refused anyhow."""
    world = worlds(shared.source)
    topic = world.topic("orders")
    world.give(0, world.acl(topic, "WRITE"), world.acl(topic, "READ", "User:drkit"))
    before = world.has(0)
    source = world.source.settings

    def chosen() -> FenceMethod | None:
        return choose(Wish(AUTO, canary), source, world.state, [topic])

    eventually(lambda: as_app(shared.source, topic).write() == 0, what="writing")
    if not names:
        with pytest.raises(Refused, check=coded("canary_not_authorized")) as caught:
            chosen()
        assert "User:drkit" in caught.value.evidence
        assert prove(source, canary, [topic], 0).is_whole, "it would have passed as fenced"
        assert world.has(0) == before
        return
    fence = chosen()
    assert fence is not None
    assert fence.name == names
    details = fence.details([topic])
    fence.apply(details)
    assert prove(source, canary, [topic], 10).is_whole
    assert as_app(shared.source, topic).write() != 0
    again = chosen()  # as when a failover is resumed
    assert again is not None
    assert again.name == names
    lifted(world, details)
    assert world.has(0) == before


@pytest.mark.wide
def test_a_fence_of_others_is_proven_on_each_topic_that_a_principal_may_write(worlds: Worlds, shared: Shared):
    """Without a fence of drkit, a topic that was forgotten would pass: the canary has no right there."""
    world = worlds(shared.source)
    topic, forgotten = world.topic("orders"), world.topic("forgotten")
    world.give(0, world.acl(topic, "WRITE"), world.acl(forgotten, "WRITE", "User:drkit"))
    eventually(lambda: as_app(shared.source, topic).write() == 0, what="writing")
    world.give(0, world.acl(topic, "WRITE", deny=True))
    source, both = world.source.settings, [topic, forgotten]
    eventually(lambda: prove(source, CANARY, both, 0).is_whole, what="refusals of both, as if fenced")
    assert choose(Wish("none", CANARY), source, world.state, [topic]) is None
    with pytest.raises(Refused, check=coded("canary_not_authorized")):
        choose(Wish("none", CANARY), source, world.state, both)
    world.give(0, world.acl(forgotten, "WRITE", "User:drkit", deny=True))
    assert choose(Wish("none", CANARY), source, world.state, both) is None


class Moving:
    """A flow between the locked clusters that runs, two groups on a topic each, and the application."""

    def __init__(self, shared: Shared, folder: Path) -> None:
        self.shared = shared
        self.world = world = FailoverWorld(shared.source, shared.locked, folder / "journal")
        self.rights = World(shared.source, shared.locked)
        self.rights.tag = world.tag
        names = {"shop": "orders", "late": "later", "new": "newer"}
        self.topics = {world.name(group): world.name(topic) for group, topic in names.items()}
        self.given = set[Acl]()
        for group, topic in self.topics.items():
            world.create(world.source, topic, 2, {"retention.ms": "-1"})
            self.given |= {self.rights.acl(topic, "WRITE"), self.rights.acl(topic)}
            world.commit(world.source, group, {TopicPartition(topic, 0): 0})
        self.rights.give(0, *self.given)
        world.failover_fields["rpo_seconds"] = 1000.0
        world.replicate()
        world.copied([*self.topics.values()], dict.fromkeys(self.topics))

    def denied(self) -> set[Acl]:
        """ACLs on the source besides those that the test gave."""
        assert self.rights.has(0) >= self.given
        return self.rights.has(0) - self.given

    def close(self) -> None:
        self.world.close()
        self.rights.close()


@pytest.fixture(scope="module")
def moving(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    with closing(Moving(shared, tmp_path_factory.mktemp("moving"))) as made:
        yield made


@pytest.mark.wide
def test_a_failover_is_held_and_rolled_back_when_a_super_user_passes_every_acl(moving: Moving):
    world, topic = moving.world, moving.world.name("orders")
    there, here = as_app(moving.shared.source, topic), as_app(moving.shared.locked, topic)
    eventually(lambda: there.write() == 0, what="writing")
    world.failover_fields["fence"] = {"seconds": 0.5, "means": "acl"}
    with Orchestrators() as others:
        held = others.run(world.plain(), "begin", groups=[world.name("shop")]).error
        assert held is not None
        assert held["code"] == "fence_leaks"
        assert "canary" in held["hint"]
        assert moving.denied(), "held: the fence stays up"
        report = others.run(world.plain(), "abort").report
        assert report is not None
        assert report["state"] == "aborted"
    assert moving.denied() == set()
    assert there.write() == 0
    assert here.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.wide
def test_a_switchovers_fence_by_acl_is_lifted_by_its_record_on_the_source_alone(moving: Moving):
    world, settings = moving.world, moving.world.settings
    with Orchestrators() as others:  # held in FENCE, as before
        planned = {"planned": True}
        held = others.run(world.plain(), "begin", groups=[world.name("shop")], request=planned).error
        assert held is not None
        assert moving.denied(), held
        abort_at_source(settings, settings.flows[0], made(Refused, "the target is away"))
        assert moving.denied() == set()
        assert others.run(world.plain(), "abort").error is None
    assert moving.denied() == set()


@pytest.mark.wide
def test_with_a_canary_that_is_an_ordinary_producer_it_moves(moving: Moving):
    world, topic = moving.world, moving.world.name("orders")
    there, here = as_app(moving.shared.source, topic), as_app(moving.shared.locked, topic)
    eventually(lambda: there.write() == 0, what="writing")
    world.failover_fields["fence"] = {"canary": CANARY}
    with world.desk() as desk:
        assert desk.begin([world.name("shop")], RunRequest())["state"] == "done"
    assert there.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: here.write() == 0, what="what the ACLs let producers do is given")
    assert not [a for a in moving.rights.has(1) if a.denies]


# P34
@pytest.mark.wide
def test_a_pending_fence_by_acl_is_applied_proven_and_lifted(moving: Moving):
    """The primary was dead when it was to be fenced, and comes back with a producer that never left."""
    world, topic = moving.world, moving.world.name("later")
    app = as_app(moving.shared.source, topic)
    eventually(lambda: app.write() == 0, what="writing")
    world.failover_fields["fence"] = {"canary": CANARY}
    before = moving.denied()
    moving.shared.source.kill()
    with world.desk() as desk:
        assert desk.begin([world.name("late")], RunRequest())["state"] == "done"
    debt = flow_state(world.state()).get(PendingFence)
    assert debt is not None
    assert debt.topics == (topic,)

    moving.shared.source.restart()
    eventually(lambda: app.write() == 0, what="it is back, and takes writes")
    with world.desk() as desk:
        assert "fence 1 topic by acl" in {effect.what for effect in pending_fences.planned(desk)}
        assert moving.denied() == before, "a plan changes nothing"
        done = pending_fences.apply_pending(desk)
        assert done is not None
        assert (done.evidence["how"], done.evidence["proven"]) == (ACL, True)
        assert done.evidence["details"]["canary"] == "app"
        assert app.write() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert moving.denied() - before == {moving.rights.acl(topic, "WRITE", deny=True)}
        assert flow_state(world.state()).get(PendingFence) is None
        assert (topic, ACL, "no", True) in pending_fences.shown(desk).topics
        assert pending_fences.apply_pending(desk) is None
    world.failover_fields["fence"] = {"canary": READER}
    with world.desk() as desk:
        for row in pending_fences.shown(desk).topics:
            assert row.takes_writes == f"unknown: {sentence('canary_not_authorized')}", row
        assert pending_fences.lift(desk, (topic,), "test") == [topic]
    assert moving.denied() == before
    eventually(lambda: app.write() == 0, what="writing again")


class GivenLater(FreezeStep):
    """When the topic is fenced, another principal gets the right to write to it, once."""

    def __init__(self, rights: World, acl: Acl) -> None:
        self._rights, self._acl = rights, acl

    def run(self, context: Context) -> StepResult:
        if self._acl not in self._rights.has(0):
            self._rights.give(0, self._acl)
        return super().run(context)


# P34
@pytest.mark.wide
def test_a_principal_that_may_write_since_the_fence_is_denied_before_open_and_found_later(moving: Moving):
    world, rights, topic = moving.world, moving.rights, moving.world.name("newer")
    since, later = (rights.acl(topic, "WRITE", f"User:{name}") for name in ("drkit", "bob"))
    world.failover_fields["fence"] = {"canary": CANARY}
    with world.desk(steps={**all_steps(), StepName.FREEZE: GivenLater(rights, since)}) as desk:
        assert desk.begin([world.name("new")], RunRequest(planned=True))["state"] == "done"
    assert rights.acl(topic, "WRITE", since.principal, deny=True) in moving.denied()
    rights.give(0, later)
    with world.desk() as desk:
        assert (topic, TAKEN_AWAY) in {row[:2] for row in pending_fences.shown(desk).topics}
        assert pending_fences.apply_pending(desk, pending_fences.due(desk)) is not None
        assert rights.acl(topic, "WRITE", later.principal, deny=True) in moving.denied()
        assert (topic, ACL) in {row[:2] for row in pending_fences.shown(desk).topics}
