"""ACLs between real clusters with authorizers: who may do what on a passive target, and who keeps it so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import Producer
import pytest

from drkit.cli.main import run
from drkit.config import ClusterSettings
from drkit.flow_state.records import AclsRecord, FenceAclsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import delete_acls, is_open, own_principal
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.acl_sync import AclSync, acl_plan_rows
from drkit.topology.acls import AclRecord, promotion, to_json
from tests.support.errors import sentence
from tests.support.spark.here import drkit_here
from tests.support.stored import put as put_record
from tests.support.topic_sync.acl_world import Shared, World, connect
from tests.support.waiting import eventually

Worlds = Callable[..., World]


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with Shared() as made:
        yield made


@pytest.fixture
def worlds(shared: Shared) -> Iterator[Worlds]:
    made: list[World] = []

    def make(target: LocalCluster | None = None, **more: Any) -> World:
        made.append(World(shared.source, target or shared.locked, **more))
        return made[-1]

    yield make
    for world in made:
        world.close()


def test_reading_follows_writing_waits_and_a_second_run_changes_nothing(worlds: Worlds):
    """P13: ACLs follow; WRITE is held back until the promotion."""
    world = worlds()
    orders, tx = world.topic("orders"), world.name("tx")
    world.give(
        0,
        world.acl(orders, "READ"),
        world.acl(orders, "WRITE"),
        world.acl(world.name("ord"), "DESCRIBE_CONFIGS", "User:audit", prefixed=True),
        world.acl(world.name("g"), "READ", kind="GROUP", prefixed=True),
        world.acl(tx, "WRITE", kind="TRANSACTIONAL_ID"),
        world.acl(tx, "DESCRIBE", kind="TRANSACTIONAL_ID"),
        world.acl(orders, "READ", "User:bob", deny=True),
        world.acl("other" + world.tag, "READ"),
    )
    expected = world.has(0) - {
        world.acl(orders, "WRITE"),
        world.acl(tx, "WRITE", kind="TRANSACTIONAL_ID"),
        world.acl("other" + world.tag),
    }  # fmt: skip
    rows = acl_plan_rows(world.flow(), world.source, world.target)
    assert sorted(r["what"] for r in rows) == ["create acl"] * 5 + ["hold acl"] * 2
    assert world.has() == set(), "a plan has no effects"

    assert len(world.sync().look([orders]).changes) == 5
    assert world.has() == expected
    world.state.load()
    position = world.state.position
    assert world.sync().look([orders]).changes == ()
    world.state.load()
    assert world.state.position == position, "the second run wrote again what was written"

    assert world.may_write(ADMIN, orders)
    assert not world.may_write("app", orders)
    assert world.read("app", orders) == b"canary"
    # With the source gone, a failover finds on the target what it has to give.
    with StateTopic(world.admins[1].settings, world.source.alias) as later:
        later.load()
        kept = later.get(AclsRecord)
    assert kept is not None
    held = promotion(kept.plan).grant
    assert held == {world.acl(orders, "WRITE"), world.acl(tx, "WRITE", kind="TRANSACTIONAL_ID")}
    world.give(1, *held)
    eventually(lambda: world.may_write("app", orders), what="the promoted topic's producer")


@pytest.mark.wide
def test_with_prefixed_names_patterns_are_prefixed_too(worlds: Worlds):
    world = worlds()
    source = world.source.alias
    world.give(0, world.acl(world.name("ord"), prefixed=True), world.acl(world.name("bills")))
    world.sync(naming="prefix").look([])
    assert world.has() == {
        world.acl(f"{source}.{world.name('ord')}", prefixed=True),
        world.acl(f"{source}.{world.name('bills')}"),
    }  # fmt: skip


@pytest.mark.wide
def test_only_what_drkit_made_goes_with_the_sources(worlds: Worlds):
    world = worlds()
    orders = world.topic("orders")
    ours, theirs = world.acl(orders), world.acl(orders, "READ", "User:local")
    both = world.acl(orders, "DESCRIBE")
    world.give(0, ours, both)
    world.give(1, theirs, both)
    world.sync().look([orders])
    assert world.has() == {ours, theirs, both}
    delete_acls(world.admins[0].settings, [ours, both])
    world.sync().look([orders])
    assert world.has() == {theirs, both}


@pytest.mark.wide
def test_a_refused_listing_is_no_empty_one(worlds: Worlds, shared: Shared):
    """confluent-kafka answers `no ACLs` here: everything that drkit made would be deleted."""
    world = worlds()
    orders = world.topic("orders")
    world.give(0, world.acl(orders))
    world.sync().look([orders])
    world.sync(source=connect(shared.source, world.source.alias, "app")).look_when_due([orders])
    assert world.has() == {world.acl(orders)}
    told = world.event("acl_sync_refused")
    assert told
    assert "DESCRIBE on the cluster" in told["hint"]


@pytest.mark.wide
def test_a_cluster_without_an_authorizer_is_no_error(worlds: Worlds, source: LocalCluster):
    world = worlds()
    plain = Cluster.connect(ClusterSettings(alias=world.source.alias, bootstrap_servers=source.bootstrap()))
    sync = world.sync(source=plain)
    sync.look_when_due([])
    told = world.event("acl_sync_off")
    assert told
    assert told["reason"] == sentence("no_authorizer", alias=world.source.alias)
    assert acl_plan_rows(world.flow(), plain, world.target) == []


@pytest.mark.wide
def test_who_may_write_to_drkits_topics_is_listed(
    worlds: Worlds, shared: Shared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Without a control key a writer there commands both clusters: `config check --connect` names them."""
    world = worlds()
    source = world.source.alias
    state = f"drkit-state.{source}.internal"
    world.give(1, world.acl(state, "ALL", "User:mallory"), world.acl(state, "WRITE", "User:drkit"),
               world.acl(f"drkit-watch.{source}", "WRITE", "User:obs", prefixed=True))  # fmt: skip
    flow = f'[[flows]]\nsource = "{source}"\ntarget = "standby"\ntopics = ["{world.tag}-.*"]\n'
    text = "".join(
        f'[clusters.{alias}]\nbootstrap_servers = "{cluster.bootstrap()}"\n[clusters.{alias}.client]\n'
        + "".join(f"\"{k}\" = '{v}'\n" for k, v in cluster.client_properties(ADMIN, "PLAIN").items())
        for alias, cluster in ((source, shared.source), ("standby", shared.locked))
    )
    file = tmp_path / "drkit.toml"
    file.write_text(text + flow)
    assert run(["config", "check", "--connect", "--json", "--config", str(file)]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = {(r["cluster"], r["topic"]): r["writers"] for r in answer["may_write"]}
    assert rows["standby", state] == ["User:drkit", "User:mallory"]
    assert rows["standby", f"drkit-watch.{source}.standby.internal"] == [
        f"User:obs, by topic drkit-watch.{source}*"
    ]
    assert rows["standby", f"drkit-failover.{source}.internal"] == []
    assert rows[source, "heartbeats"] == []
    assert "super users" in answer["also_may_write"]
    assert run(["config", "check", "--connect", "--config", str(file)]) == 0
    said = capsys.readouterr().out
    assert "User:mallory" in said
    assert "only drkit" in said


@pytest.mark.wide
def test_fences_of_a_failover_stay_on_the_source(worlds: Worlds):
    world = worlds()
    orders = world.topic("orders")
    fence = world.acl(orders, "WRITE", "User:app", deny=True)
    world.give(0, fence, world.acl(orders))
    put_record(world.state, FenceAclsRecord.KEY, {"acls": to_json([fence])})
    world.sync().look([orders])
    assert world.has() == {world.acl(orders)}


def _opposite(records: Collection[AclsRecord] = (), promoted: Collection[str] = ()) -> OppositeFlows:
    """Return the flows in the other direction, as far as ACLs are concerned."""
    there = SimpleNamespace(records=lambda _: records, promoted=lambda: promoted)
    return cast("OppositeFlows", there)


@pytest.mark.wide
def test_what_an_opposite_flow_made_does_not_come_back(worlds: Worlds):
    world = worlds()
    orders = world.topic("orders")
    came, own = world.acl(orders, "DESCRIBE"), world.acl(orders)
    world.give(0, came, own)
    there = _opposite([AclsRecord(AclRecord(made=frozenset({came})))])
    AclSync(world.source, world.target, world.flow(), world.state, opposite=there).look([orders])
    assert world.has() == {own}


@pytest.mark.wide
def test_acls_of_a_topic_that_waits_for_its_return_stay_as_they_are(worlds: Worlds):
    world = worlds()
    orders, pay = world.topic("orders"), world.topic("pay")
    world.give(0, world.acl(orders), world.acl(pay))
    there = _opposite(promoted=[orders])
    AclSync(world.source, world.target, world.flow(), world.state, opposite=there).look([orders, pay])
    assert world.has() == {world.acl(pay)}
    world.sync().look([orders, pay])
    assert world.has() == {world.acl(orders), world.acl(pay)}


@pytest.mark.wide
def test_a_copier_that_logs_in_as_another_is_let_in_too(worlds: Worlds, shared: Shared):
    world = worlds(shared.open)
    orders = world.topic("orders")
    world.give(0, world.acl(orders))
    client = {"sasl.username": "drkit", "sasl.password": "drkit-password"}
    writer = world.target.settings.with_client(client)
    world.sync(target_producer=client, writer=writer).look([orders])
    assert world.may_write("drkit", orders)
    assert not world.may_write("app", orders)


@pytest.mark.wide
def test_a_deny_for_all_never_locks_drkit_out(worlds: Worlds, shared: Shared):
    world = worlds(shared.open, user="drkit")
    assert own_principal(world.target.settings) == "User:drkit", "no super user there"
    orders = world.topic("orders")
    deny = world.acl(orders, "WRITE", "User:*", deny=True)
    world.give(0, deny, world.acl(orders))
    world.sync().look([orders])
    assert deny not in world.has()
    told = world.event("acl_left_out", deny.at)
    assert told
    assert "refuse drkit itself" in told["reason"]
    # The copied READ alone closes an open topic: drkit let itself in before.
    assert world.may_write("drkit", orders)
    assert not world.may_write("app", orders)
    assert world.read("app", orders) == b"canary"


@pytest.mark.wide
def test_the_guard_refuses_foreign_producers_while_drkit_writes_and_all_read(worlds: Worlds, shared: Shared):
    world = worlds(shared.open, user="drkit", allow_everyone_if_no_acl_found=True)
    orders = world.topic("orders")
    assert world.may_write("app", orders), "without an ACL the cluster is open"
    guarded = world.sync(guard_passive_topics=True)
    assert guarded.look([orders]).changes
    eventually(lambda: not world.may_write("app", orders), what="the guard")
    assert world.may_write("drkit", orders)
    assert world.read("app", orders) == b"canary"
    assert guarded.look([orders]).changes == ()
    kept = world.state.get(AclsRecord)
    assert kept is not None
    record = kept.plan
    assert promotion(record, [orders]).lift == world.has()
    # Switched off, it leaves no trace.
    world.sync().look([orders])
    assert world.has() == set()
    eventually(lambda: world.may_write("app", orders), what="the end of the guard")


@pytest.mark.wide
def test_whether_a_cluster_is_open_is_asked_before_it_is_guarded(worlds: Worlds, shared: Shared):
    assert is_open(worlds().target) is False
    world = worlds(shared.open, user="drkit")
    assert is_open(world.target) is None
    assert world.sync(guard_passive_topics=True).look([world.topic("orders")]).changes == ()
    told = world.event("guard_off")
    assert told
    assert "allow_everyone_if_no_acl_found" in told["hint"]


@pytest.mark.wide
def test_the_job_syncs_acls_and_copies_into_topics_that_they_closed(
    worlds: Worlds, shared: Shared, tmp_path: Path
):
    world = worlds(shared.open, user="drkit")
    orders = world.name("orders")
    assert create_topics(world.admins[0], [TopicPlan(orders, 1, 1, {})]) == {}
    world.give(0, world.acl(orders, "READ", "User:other"))
    producer = Producer({**confluent_config(world.admins[0].settings), "log_level": 0})
    producer.produce(orders, b"first")
    assert producer.flush(15) == 0
    text = ""
    for settings in (world.source.settings, world.target.settings):
        text += f'[clusters.{settings.alias}]\nbootstrap_servers = "{settings.bootstrap_servers}"\n'
        text += f"[clusters.{settings.alias}.client]\n"
        text += "".join(f'"{k}" = "{v}"\n' for k, v in settings.client.items())
    text += f'[[flows]]\nsource = "{world.source.alias}"\ntarget = "standby"\ntasks = 1\nbuckets = 2\n'
    text += f'topics = ["{orders}"]\n'
    path = tmp_path / "drkit.toml"
    path.write_text(text)
    done = drkit_here("replicate", "--config", str(path), "--once")
    assert done.returncode == 0, done.stderr
    assert world.acl(orders, "READ", "User:other") in world.has()
    assert world.acl(orders, "WRITE", "User:drkit") in world.has()
    assert not world.may_write("app", orders)
    assert world.read("drkit", orders) == b"first"
