"""A bubble under an authorizer, with an ordinary principal and a control key; and with three brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
import os
from pathlib import Path

import pytest

from drkit.chaos.rights import APPLICATION, DRKIT, grant_rights
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from tests.support.drill.production import Production, plan_of, run
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
