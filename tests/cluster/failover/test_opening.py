"""OPEN: settings of the source return, producers are let in, and the old direction never runs again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.config import Settings
from drkit.errors import Failed
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.steps import opening
from drkit.failover.steps.opening import OpenStep
from drkit.flow_state.records import AclsRecord, ConfigsRecord, PromotionRecord, RoleRecord
from drkit.journal.journal import NoJournal
from drkit.journal.machine import StepName
from drkit.kafka.access.acls import list_acls
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failover.settings_file import drkit, written
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.stored import put as put_record
from tests.support.stored import stored
from tests.support.topic_sync.acl_world import World as AclWorld


class Notes(NoJournal):
    """A journal in memory: steps on their own write into it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []

    @contextmanager
    def effect(self, step: StepName, name: str, details: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        outcome: dict[str, Any] = {}
        yield outcome
        self.told.append((f"{step} {name}", details, outcome))


@pytest.mark.wide
def test_settings_of_the_source_return_and_the_old_direction_is_over(world: World, tmp_path: Path) -> None:
    topic = world.name("orders")
    given = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": "2000000",
        "retention.ms": "86400000",
    }
    world.create(world.source, topic, 1, given)
    fill(world.source, topic, 20)
    world.commit(world.source, world.name("shop"), {TopicPartition(topic, 0): 5})
    world.replicate()
    world.copied([topic], {world.name("shop"): None})
    world.stop_replicating()
    with world.desk() as desk:
        report = desk.begin((), RunRequest(accept_data_loss="no replicator runs any more"))
        assert report["state"] == "done"
        context = desk._context
        assert context is not None
        settings = _configs(context, topic)
        assert {k: settings[k] for k in given} == given
        assert settings["message.timestamp.before.max.ms"] == str((1 << 63) - 1), "Kafka's own default"
        assert settings["message.timestamp.after.max.ms"] == "3600000", "Kafka's own default"
    state = world.state()
    assert state[PromotionRecord.KEY]["run_id"] == report["run"]
    assert state[RoleRecord.key(topic)]["ends"] == {"0": world.offsets(world.target, topic)[0]}
    refused = drkit(written(world, tmp_path), "replicate", "--json")
    assert refused.returncode == 3
    error = json.loads(refused.stderr[refused.stderr.index("{") :])
    assert error["code"] == "target_promoted"
    # After a copy by hand, records that only the old primary has would come before new ones.
    assert "drkit divergence" in error["hint"]
    assert f"{world.target.alias}->{world.source.alias}" not in error["hint"]


@pytest.mark.wide
def test_a_broker_that_applies_settings_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller has accepted them: a hold after OPEN would leave clients on the old cluster."""
    wrong: list[list[str]] = [["late"], ["late"], []]
    slept: list[Any] = []
    loop = SimpleNamespace(sleep=None)
    context: Any = SimpleNamespace(clock=lambda: len(slept), loop=loop, run=lambda *a: slept.append(a))
    monkeypatch.setattr(opening, "_other_settings", lambda _: wrong.pop(0))
    monkeypatch.setattr(opening, "_missing_acls", lambda _: frozenset())
    opening._wait_until_heard(context)
    assert (wrong, len(slept)) == ([], 2)
    wrong += [["never"]] * 50
    opening._wait_until_heard(context)
    assert len(slept) < 20, "the proof decides"


def _configs(context: Context, topic: str) -> dict[str, str | None]:
    return {k: v.value for k, v in topic_configs(context.target_admin(), [topic])[topic].items()}


@pytest.fixture
def locked() -> Iterator[AclWorld]:
    """Two clusters where nothing is allowed that no ACL allows."""
    clusters = [
        LocalCluster(ClusterSpec(name, sasl=True, authorizer=True, mechanisms=("PLAIN",)))
        for name in ("primary", "standby")
    ]
    start_together(*clusters)
    world = AclWorld(*clusters)
    yield world
    world.close()
    for cluster in clusters:
        cluster.stop()


@contextmanager
def at_open(world: AclWorld, topic: str) -> Iterator[Context]:
    """A failover of one topic that is about to be opened."""
    flow = world.flow()
    settings = Settings(clusters={c.alias: c.settings for c in (world.source, world.target)}, flows=(flow,))
    loop = EventLoop()
    target = RawCluster(loop, world.target.settings, "test")
    loop.run(target.connected)
    scope, request = Scope({topic: topic}, (), whole_flow=False), RunRequest()
    try:
        yield Context(
            settings, flow, scope, request, "run", 7, Notes(), loop, target, world.state, lambda _: None
        )
    finally:
        target.close()
        loop.close()


@pytest.mark.wide
def test_producers_are_let_in_when_the_topic_is_opened(locked: AclWorld) -> None:
    """P13: what was held back while the copy was passive is given, only there."""
    orders, other = locked.topic("orders"), locked.topic("other")
    locked.give(0, *(locked.acl(t, op) for t in (orders, other) for op in ("READ", "WRITE")))
    locked.sync().look([orders, other])
    forged = {
        locked.acl("*", "ALL", "User:mallory"),
        locked.acl("drkit-", "ALL", "User:mallory", prefixed=True),
        locked.acl("not-of-this-flow", "WRITE", "User:mallory"),
    }
    known = locked.state.get(AclsRecord)
    assert known is not None
    poisoned = replace(known.plan, held=known.plan.held | forged)
    put_record(locked.state, AclsRecord.KEY, AclsRecord(poisoned).to_json())
    put_record(locked.state, ConfigsRecord.key(orders), {"set": {}})
    assert not locked.may_write("app", orders)
    with at_open(locked, orders) as context:
        planned = [e.what for e in OpenStep().plan(context)]
        assert any(w.startswith("create acl ALLOW User:app WRITE") for w in planned)
        assert {w for w in planned if "mallory" in w} == {f"leave out acl {a}" for a in forged}
        with pytest.raises(Failed, check=coded("not_open")):
            OpenStep().prove(context)
        done = OpenStep().run(context)
        assert done.evidence["acls"] == {
            "granted": [str(locked.acl(orders, "WRITE"))],
            "lifted": [],
            "left_out": [str(a) for a in sorted(forged)],
        }
        assert "User:mallory" in " ".join(done.notes)
        assert not [a for a in list_acls(locked.admins[1].settings).acls if a.principal == "User:mallory"]
        OpenStep().run(context)  # killed in between, and resumed
        assert OpenStep().prove(context).evidence["topics_open"] == 1
    assert stored(locked.state)[RoleRecord.key(orders)]["role"] == "promoted"
    assert PromotionRecord.KEY not in stored(locked.state)
    assert locked.may_write("app", orders)
    assert not locked.may_write("app", other)
    locked.sync().look([orders, other])
    assert locked.may_write("app", orders), "no sync takes it back"
