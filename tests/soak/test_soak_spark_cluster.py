"""Workers of a Spark cluster killed at random while it copies; a seed of one's own: ``DRKIT_TEST_SEED=7``.

``DRKIT_TEST_KILLS`` makes it shorter or longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
import os
from pathlib import Path
import random
import threading
import time

import pytest

from drkit.local.cluster import LocalCluster
from drkit.spark.cluster import slots_now
from drkit.spark.session import plan_spark, spark_session
from tests.support.flows.produce import Load
from tests.support.spark.job_world import World
from tests.support.spark.spark_standalone import WORKERS, SparkCluster
from tests.support.waiting import eventually

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
    """With one task, for which the other worker has a slot; with three, for which it has too few."""
    chance = random.Random(SEED)
    tasks = 1 if spare else 3
    with spark_session("drkit soak", plan_spark(cluster.url, tasks + 1, cluster.conf())) as workshop:
        world = World(source, target, workshop)
        orders, payments = world.topic("orders", 6), world.topic("payments", 3)
        job = world.job(epoch_seconds=chance.choice((20.0, 600.0)), tasks=tasks)
        plain = Load(world.clusters[0], [orders], per_second=1000, transactions=False)
        with plain, Load(world.clusters[0], [payments], per_second=300):
            world.start(job)
            eventually(lambda: world.failure or world.count(orders), what="the first records")
            gaps = sorted(kill_one(world, cluster, orders, chance) for _ in range(KILLS))
        for topic in (orders, payments):
            eventually(partial(whole, world, topic), what="the end of the copy")
            assert not world.failure
            world.equal(topic)
        world.end()
    print(f"from a kill to records in all partitions: {gaps}")  # noqa: T201


def kill_one(world: World, cluster: SparkCluster, topic: str, chance: random.Random) -> float:
    """Seconds from a kill until the copies of all partitions hold records that were written after it."""
    threading.Event().wait(chance.uniform(0.5, 8))
    if chance.random() < 0.8:  # else perhaps the only one that has an executor
        eventually(lambda: world.failure or not world.workshop.slots.missing, what="slots")
    worker = chance.randrange(WORKERS)
    slots = slots_now(world.workshop.context)
    others = [n for n in range(WORKERS) if n != worker and cluster.pythons(n)]
    began = time.monotonic()
    cluster.kill_worker(worker)
    known = world.lengths(0, topic)
    eventually(partial(has_grown, world, topic, known), what="records that were written after the kill")
    known = world.lengths(0, topic)
    eventually(partial(reached, world, topic, known), what="records in all partitions")
    assert not world.failure
    gap = round(time.monotonic() - began, 1)
    left = "others are ready" if others else "no other was ready"
    print(f"seed {SEED}: worker {worker} was killed, of {slots} slots, {left}, {gap} s", flush=True)  # noqa: T201
    cluster.start_worker(worker)
    return gap


def has_grown(world: World, topic: str, known: list[int]) -> bool:
    """Each partition of the source."""
    return all(now > before for now, before in zip(world.lengths(0, topic), known, strict=True))


def reached(world: World, topic: str, known: list[int]) -> bool:
    """Without transactions an offset of the target is no smaller than the source's."""
    ends = zip(world.lengths(1, topic), known, strict=True)
    return bool(world.failure) or all(here >= there for here, there in ends)


def whole(world: World, topic: str) -> bool:
    """All committed records are there."""
    return bool(world.failure) or world.same_length(topic)
