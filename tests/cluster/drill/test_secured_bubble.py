"""A bubble under an authorizer, with an ordinary principal and a control key; and with three brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
import os
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.chaos.stage import APPLICATION, DRKIT, grant_rights
from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from tests.support.drill.production import Production, plan_of, run
from tests.support.errors import sentence
from tests.support.failover.world import World

SPEC = ClusterSpec("source", sasl=True, mechanisms=("PLAIN",), authorizer=True)


@pytest.fixture
def locked() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    pair = LocalCluster(SPEC), LocalCluster(replace(SPEC, name="target"))
    try:
        start_together(*pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.stop()


@pytest.mark.wide
def test_with_an_ordinary_principal_and_a_control_key(
    locked: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    source, target = locked
    admin = World(source, target, tmp_path / "admin", user=ADMIN)
    for cluster in (admin.source, admin.target):
        grant_rights(cluster, [])
    admin.close()
    key = tmp_path / "control.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o600)
    world = World(source, target, tmp_path / "journal", user=DRKIT)
    world.control_fields = {"key_file": str(key)}
    world.target = world.settings.cluster(world.target.alias)  # with the key
    world.failover_fields["fence"] = {"canary": source.client_properties(APPLICATION, "PLAIN")}
    production = Production(world)
    before = production.inventories()
    report = run(world.settings, plan_of(world.settings))
    assert report.verdict == "pass", report.reasons
    production.same(before, production.inventories())
    world.close()


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_with_the_rights_of_an_application(locked: tuple[LocalCluster, LocalCluster], tmp_path: Path) -> None:
    """P28: the clients of a bubble have the rights of `[drills.client]`; one that is missing is named."""
    source, target = locked
    world = World(source, target, tmp_path / "journal", user=ADMIN)
    sides = world.source, world.target
    for cluster in sides:
        grant_rights(cluster, [])
    production, settings = Production(world), world.settings
    before = production.inventories()
    client = source.client_properties(APPLICATION, "PLAIN")
    refused = run(settings, plan_of(settings, client=client))
    assert refused.verdict == "fail", refused.reasons
    assert refused.reasons[0].startswith(f"{sentence('drill_records_refused')}: "), refused.reasons
    assert "AUTHORIZATION_FAILED" in refused.reasons[0], refused.reasons
    production.same(before, production.inventories())
    for cluster in sides:
        grant_topics(cluster, "mm2-drkit-drill.")
    report = run(settings, plan_of(settings, client=client))
    assert report.verdict == "pass", report.reasons
    [rights] = [step for step in report.not_proven if step.step == "rights of applications"]
    assert rights.exercised == "bubble"
    world.close()


def grant_topics(cluster: ClusterSettings, prefix: str) -> None:
    """Let the application read and write the topics of a prefix."""
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{APPLICATION}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    client = AdminClient(confluent_config(cluster))
    for created in client.create_acls(acls).values():
        created.result(20)


@pytest.mark.soak
def test_with_three_brokers(tmp_path: Path) -> None:
    source, target = (LocalCluster(ClusterSpec(name, brokers=3)) for name in ("source", "target"))
    try:
        start_together(source, target)
        production = Production(World(source, target, tmp_path / "journal"))
        before = production.inventories()
        report = run(production.world.settings, plan_of(production.world.settings))
        assert report.verdict == "pass", report.reasons
        production.same(before, production.inventories())
        production.world.close()
    finally:
        source.stop()
        target.stop()
