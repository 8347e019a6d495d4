"""3,000 groups with odd names, failed over by commands as processes of their own; what each of them took."""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
from pathlib import Path
import sys

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.failover.odd_groups import OddGroups, run, story
from tests.support.failover.world import World

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
GROUPS = int(os.environ.get("DRKIT_SOAK_GROUPS", "3000"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    source, target = LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target"))
    made = None
    try:
        start_together(source, target)
        made = World(source, target, tmp_path)
        yield made
    finally:
        if made is not None:
            made.close()
        source.stop()
        target.stop()


def test_three_thousand_groups_with_odd_names(world: World) -> None:
    groups = OddGroups(world, GROUPS)
    groups.prepare(600.0)
    costs = story(groups, run)
    found = {name: cost._asdict() for name, cost in costs.items()}
    sys.stdout.write(f"\n{json.dumps({'groups': GROUPS, **found})}\n")  # the figures of a run
