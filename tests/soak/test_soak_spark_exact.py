"""Half an hour of `drkit replicate` while topics change under it; a seed of one's own: ``DRKIT_TEST_SEED=7``.

``DRKIT_TEST_SECONDS`` makes it shorter or longer.
"""

from __future__ import annotations

import os
from pathlib import Path
import random
import threading
import time

import pytest

from drkit.local.cluster import start_together
from tests.support.exactness.cleaning import CLEANING
from tests.support.shared_clusters import ClusterFactory
from tests.support.soak.exact_world import ExactWorld, copied_something

SEED = int(os.environ.get("DRKIT_TEST_SEED", "1"))
SECONDS = float(os.environ.get("DRKIT_TEST_SECONDS", "1800"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 1800)]


def test_topics_change_while_they_are_replicated(
    cluster_factory: ClusterFactory, tmp_path: Path, topic_name: str
) -> None:
    source = cluster_factory("source-x", start=False, properties=CLEANING)
    target = cluster_factory("target-x", start=False, properties={**CLEANING, "compression.type": "gzip"})
    start_together(source, target)
    world, chance = ExactWorld(source, target, tmp_path, topic_name[-8:], seed=SEED), random.Random(SEED)
    ends = time.monotonic() + SECONDS
    world.write()
    world.running()
    copied_something(world)
    try:
        while time.monotonic() < ends:
            print(f"seed {SEED}: {world.happen()}", flush=True)  # noqa: T201 - however far a soak run gets
            threading.Event().wait(chance.uniform(0.5, 12))
        world.settled()
        counted = world.verdict()
        assert counted["records"] > 1000
        assert counted["exact before"] > 10
    finally:
        world.close()
