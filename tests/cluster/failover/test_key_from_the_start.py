"""A pair that has a control key from its first record on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failover.command import drkit
from tests.support.failover.control_key import KEYS, configured
from tests.support.failover.world import World
from tests.support.flows.produce import fill


@pytest.mark.wide
def test_a_new_pair_signs_everything_it_writes(world: World, tmp_path: Path):
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    file = configured(world, tmp_path, KEYS[0])
    world.replicate()
    fill(world.source, topic, 200)
    world.copied([topic])
    said = drkit(file, "control", "check")
    assert said.code == 0, said.out
    assert not [row for row in said.data if row.keys() & {"without a MAC", "with a wrong MAC"}]
