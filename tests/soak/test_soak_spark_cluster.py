"""Workers of a Spark cluster killed at random while it copies; a seed of one's own: ``DRKIT_TEST_SEED=7``.

``DRKIT_TEST_KILLS`` makes it shorter or longer.
"""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
import random
import threading
import time

import pytest

from drkit.local.cluster import LocalCluster
from drkit.replicate.session import plan_spark, spark_session
from tests.replicate.job_world import TASKS, World
from tests.replicate.process import eventually
from tests.replicate.produce import Load
from tests.replicate.spark_standalone import WORKERS, SparkCluster

SEED = int(os.environ.get("DRKIT_TEST_SEED", "1"))
KILLS = int(os.environ.get("DRKIT_TEST_KILLS", "25"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(KILLS * 60 + 600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path / "spark")
    yield made
    made.stop()


@pytest.mark.parametrize("spare", [True, False], ids=["free-slot", "no-free-slot"])
def test_workers_killed_at_random_lose_and_double_nothing(
    source: LocalCluster, target: LocalCluster, cluster: SparkCluster, *, spare: bool
) -> None:
    """With one task, whose slot the other worker has, too; with two, of which one has no slot then."""
    chance, conf = random.Random(SEED), cluster.conf()
    tasks = 1 if spare else TASKS
    needed = tasks + spare if spare else TASKS + 1
    gaps = []
    with spark_session("drkit soak", plan_spark(cluster.url, needed, conf)) as workshop:
        world = World(source, target, workshop)
        orders = world.topic("orders", 6)
        job = world.job(epoch_seconds=chance.choice((20.0, 600.0)))
        job.flow = job.flow.model_copy(update={"tasks": tasks})
        with Load(world.clusters[0], [orders], per_second=1000):
            world.start(job)
            eventually(lambda: world.failure or world.count(orders), what="the first records")
            for kill in range(KILLS):
                threading.Event().wait(chance.uniform(0.5, 8))
                worker = chance.randrange(WORKERS)
                known, began = world.lengths(0, orders), time.monotonic()
                cluster.kill_worker(worker)
                eventually(
                    lambda known=known: world.failure or reached(world, orders, known), what="all partitions"
                )
                assert not world.failure
                gaps.append(time.monotonic() - began)
                print(f"seed {SEED}, kill {kill} of worker {worker}: {gaps[-1]:.1f} s", flush=True)  # noqa: T201
                cluster.start_worker(worker)
        eventually(lambda: world.failure or world.same_length(orders), what="the end of the copy")
        assert not world.failure
        world.equal(orders)
        world.end()
    print(f"from a kill to copies of all partitions: {sorted(round(gap, 1) for gap in gaps)}")  # noqa: T201


def reached(world: World, topic: str, known: list[int]) -> bool:
    """Whether every partition's copy has what its source had: an offset of the target is no smaller."""
    return all(here >= there for here, there in zip(world.lengths(1, topic), known, strict=True))
