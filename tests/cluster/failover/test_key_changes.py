"""The control key of a pair is replaced by another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failover.command import drkit
from tests.support.failover.control_key import KEYS, buckets, configured
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flows.produce import fill


def places(world: World) -> dict[object, object]:
    """What the map says of each partition."""
    return {
        key: (found.segments.triples(), found.tail, found.claims(), found.broken)
        for bucket in buckets(world).values()
        for key, found in bucket.partitions.items()
    }


@pytest.mark.wide
def test_what_the_old_key_signed_is_signed_with_the_new_one_and_copying_continues(
    world: World, tmp_path: Path
):
    topic = world.name("orders")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    configured(world, tmp_path, KEYS[0])
    for first in (0, 200):
        world.replicate()
        fill(world.source, topic, 200, first=first)
        world.copied([topic])
        world.stop_replicating()
    before = places(world)
    assert before
    file = configured(world, tmp_path, KEYS[1], KEYS[0])
    said = drkit(file, "control", "adopt", "--yes")
    assert said.code == 0, said.err
    assert places(world) == before, "with both keys configured, what each of them signed is read"
    for first, keys in ((400, (KEYS[1], KEYS[0])), (600, (KEYS[1],))):
        file = configured(world, tmp_path, *keys)
        world.replicate()
        fill(world.source, topic, 200, first=first)
        world.copied([topic])
        world.stop_replicating()
        assert drkit(file, "control", "check").code == 0
    theirs, ours = (world.records(c, topic) for c in (world.source, world.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
