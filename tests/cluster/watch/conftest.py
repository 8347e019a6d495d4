"""One primary and one standby for the tests of a file that only disturb them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.detect.reasons import Reason
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.watch.world import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Three brokers behind links, a standby, and a replicator that runs."""
    primary = LocalCluster(ClusterSpec("primary", brokers=3, linked=("PROBE", "REPLICATION")))
    standby = LocalCluster(ClusterSpec("standby"))
    made = None
    try:
        start_together(primary, standby)
        made = World(primary, standby)
        made.replicate()
        yield made
    finally:
        if made is not None:
            made.close()
        primary.stop()
        standby.stop()


@pytest.fixture
def calm(world: World) -> Iterator[World]:
    """The same world; after each test everything works again and no observer runs."""
    yield world
    world.primary.resume()
    for role in ("PROBE", "REPLICATION"):
        world.primary.link(role).restore()
    world.primary.restart()
    world.dismiss()


def up(*lookouts: object) -> None:
    """Wait until all of them see heartbeats arrive, and the primary up."""
    for each in lookouts:
        moment = each.sees(Reason.WELL, 60.0)  # type: ignore[attr-defined]
        assert moment is not None
