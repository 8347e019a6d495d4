"""A round trip between clusters with authorizers: the fence by ACL stays as the guard of the passive side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.flow_state.records import FenceAclsRecord, GuardAclsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.client_config import confluent_config
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.topology.acls import Acl
from tests.support.failback.pair import Pair, Side
from tests.support.failover.application import CANARY, App, as_app
from tests.support.flows.produce import fill
from tests.support.topic_sync.acl_world import World as Rights
from tests.support.topic_sync.applied import acls_applied
from tests.support.waiting import eventually

DENIED = int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
_EVERYTHING = (
    (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"), (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.BROKER, "kafka-cluster"),
)  # fmt: skip


@pytest.fixture(scope="module")
def locked() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    both = [
        LocalCluster(ClusterSpec(name, sasl=True, authorizer=True, mechanisms=("PLAIN",)))
        for name in ("left", "right")
    ]
    start_together(*both)
    yield both[0], both[1]
    for cluster in both:
        cluster.stop()


@pytest.fixture
def rights(locked: tuple[LocalCluster, LocalCluster]) -> Iterator[Rights]:
    """drkit is no super user: it has rights on everything by ACLs."""
    found = Rights(*locked)
    for side in (0, 1):
        admin = AdminClient(confluent_config(found.admins[side].settings))
        done = admin.create_acls(
            [
                AclBinding(kind, name, ResourcePatternType.LITERAL, "User:drkit", "*",
                           AclOperation.ALL, AclPermissionType.ALLOW)
                for kind, name in _EVERYTHING
            ]
        )  # fmt: skip
        for future in done.values():
            future.result(30)
        acls_applied(found.admins[side].settings)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("canary", "turns"),
    [(CANARY, 2), ({}, 2), pytest.param({}, 6, marks=pytest.mark.soak)],
    ids=["canary", "drkit is fenced, too", "six"],
)
def test_turns_with_a_guard(
    locked: tuple[LocalCluster, LocalCluster],
    rights: Rights,
    tmp_path: Path,
    canary: dict[str, str],
    turns: int,
) -> None:
    pair = Pair(*locked, tmp_path / "journal", user="drkit")
    first = pair.now
    rights.tag, topic = first.tag, first.name("orders")
    for side in (pair.now, pair.other):
        side.failover_fields["fence"] = {"means": "acl", "canary": canary}
    try:
        first.create(first.source, topic, 2, {"retention.ms": "-1"})
        given = {rights.acl(topic, "WRITE"), rights.acl(topic)}
        rights.give(0, *given)
        apps = [as_app(cluster, topic) for cluster in locked]
        eventually(lambda: apps[0].write() == 0, what="writing")
        for number in range(turns):
            _turned(pair, topic, apps, number)
    finally:
        pair.close()
    own = "User:drkit"
    assert {a for a in rights.has(0) if a.name == topic and a.principal != own} == given, "it is active again"


def _turned(pair: Pair, topic: str, apps: list[App], number: int) -> None:
    side, here, there = pair.now, number % 2, (number + 1) % 2
    fill(side.source, topic, 50, first=1000 * number)
    side.replicate()
    side.copied([topic])
    assert side.exact([topic]) > 0
    assert apps[there].write() == DENIED
    assert pair.switch()["state"] == "done"
    assert apps[here].write() == DENIED
    eventually(lambda: apps[there].write() == 0, what="writing on the new primary")
    assert pair.reprotect(cut="")["state"] == "done"
    assert apps[here].write() == DENIED, "the passive side keeps its guard"
    assert _guard(pair.now), "it is on record where the next switchover lifts it"
    assert not _fence(side)


def _guard(side: Side) -> frozenset[Acl]:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        found = state.get(GuardAclsRecord)
    return found.acls if found is not None else frozenset()


def _fence(side: Side) -> frozenset[Acl]:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        found = state.get(FenceAclsRecord)
    return found.acls if found is not None else frozenset()
