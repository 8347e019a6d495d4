"""A standby: it says how it is, and copies when the holder of the lease is gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
import threading
from typing import Any

import pytest

from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.records import LeaseRecord, StandbyRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from drkit.replicate.job import FlowJob
from drkit.replicate.standby import Standby
from drkit.spark.session import SharedSpark, spark_session
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from tests.support.flows.compare import read
from tests.support.flows.process import Replicator
from tests.support.flows.produce import Load
from tests.support.spark.job_world import TASKS, World
from tests.support.stored import put as put_record
from tests.support.stored import read_on
from tests.support.waiting import eventually

GONE = {
    "process": {"host": "another-host", "pid": 7, "space": "elsewhere", "born": 1},
    "since_ms": 1_000, "renewed_ms": 2_000, "ttl_ms": 15_000, "ready": True, "reason": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def workshop() -> Iterator[SharedSpark]:
    with spark_session("drkit tests", 2 * TASKS) as made:
        yield made


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, workshop: SharedSpark) -> World:
    return World(source, target, workshop)


@pytest.fixture
def flow(world: World) -> FlowSettings:
    found = world.job(lease_seconds=3.0).flow
    ensure_state_topic(world.target, found)
    return found


class Running:
    """A job of this process in a thread of its own."""

    def __init__(self, job: FlowJob) -> None:
        self.job, self.stop = job, threading.Event()
        self.failure: DrkitError | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.job.run(self.stop)
        except DrkitError as error:
            self.failure = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()
        assert self.failure is None


def look(world: World, flow: FlowSettings) -> FlowStatus:
    clusters = {c.alias: c for c in world.clusters}
    collector = StatusCollector(Settings(clusters=clusters, flows=(flow,)), flow, groups=False)
    try:
        return collector.look()
    finally:
        collector.close()


def both_ready(world: World, flow: FlowSettings) -> FlowStatus | None:
    status = look(world, flow)
    return status if sum(standby.ready for standby in status.standbys) == 2 else None


def holder(state: StateTopic) -> Any:
    return read_on(state).get(LeaseRecord.KEY, {}).get("run_id")


@pytest.mark.wide
def test_of_two_standbys_one_takes_over_from_a_killed_holder_and_the_other_from_that_one(
    world: World, tmp_path: Path
):
    orders = world.topic("orders", 2)
    flow = world.job().flow
    config = tmp_path / "drkit.toml"
    config.write_text(
        "".join(
            f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n' for c in world.clusters
        )
        + f'[[flows]]\nsource = "{flow.source}"\ntarget = "{flow.target}"\ntopics = ["{world.tag}-.*"]\n'
        f"buckets = {flow.buckets}\ntasks = {flow.tasks}\n"
    )
    first = Replicator(config, tmp_path / "first.log")
    ensure_state_topic(world.target, flow)
    with (
        StateTopic(world.clusters[1], flow.source) as state,
        Load(world.clusters[0], [orders], per_second=500),
    ):
        eventually(lambda: first.alive() and holder(state), what="the first one's lease")
        put_record(state, f"{StandbyRecord.KEY}dead", GONE)
        both = [Running(world.job(standby=True)) for _ in range(2)]
        seen = eventually(partial(both_ready, world, flow), 120, "two standbys that are ready")
        assert seen.runner is not None
        assert seen.runner.process == first.pids()[0]
        assert {s.run_id for s in seen.standbys} == {b.job.run_id for b in both}, (
            "the one that was gone is forgotten"
        )
        world_count = eventually(lambda: world.count(orders), what="what the first one copies")

        first.kill()
        eventually(lambda: holder(state) in {b.job.run_id for b in both}, what="another holder")
        eventually(lambda: world.count(orders) > world_count + 2000, what="more records")
        heir = next(b for b in both if b.job.run_id == holder(state))
        waits = next(b for b in both if b is not heir)
        eventually(lambda: [s.run_id for s in look(world, flow).standbys] == [waits.job.run_id])
        assert waits.job.progress is None, "it copies nothing"

        heir.end()
        eventually(lambda: holder(state) == waits.job.run_id, what="the second standby")
        copied = world.count(orders)
        eventually(lambda: world.count(orders) > copied, what="records by the second standby")
    eventually(lambda: world.count(orders) >= sum(_ends(world, orders)), what="the end")
    world.equal(orders)
    waits.end()
    with StateTopic(world.clusters[1], flow.source) as state:
        assert not [key for key in read_on(state) if key.startswith((StandbyRecord.KEY, LeaseRecord.KEY))]


@pytest.mark.wide
def test_one_whose_spark_has_not_started_says_so_and_leaves_a_free_lease_alone(
    world: World, flow: FlowSettings, tmp_path: Path
):
    stop = threading.Event()
    with (
        StateTopic(world.clusters[1], flow.source) as state,
        StateTopic(world.clusters[1], flow.source) as mine,
    ):
        lease = FlowLease(world.clusters[1], flow, mine, "waits")
        standby = Standby(flow, world.clusters, SharedSpark(tmp_path), mine, lease)
        took: list[bool] = []
        thread = threading.Thread(target=lambda: took.append(standby.wait(stop)))
        thread.start()
        first = eventually(lambda: read_on(state).get(f"{StandbyRecord.KEY}waits"), what="its record")
        # It is written again after some looks at the free lease.
        eventually(
            lambda: read_on(state)[f"{StandbyRecord.KEY}waits"]["renewed_ms"] > first["renewed_ms"],
            what="a renewal of its record",
        )
        (seen,) = look(world, flow).standbys
        assert (seen.run_id, seen.ready, seen.reason) == ("waits", False, "Spark is starting")
        assert set(read_on(state)) == {f"{StandbyRecord.KEY}waits"}, "it writes nothing else"
        stop.set()
        thread.join(30)
        assert took == [False]
        # Its goodbye is given a second, and goes on behind it where the target is slow.
        eventually(lambda: not read_on(state), what="the end of its record")


def _ends(world: World, topic: str) -> list[int]:
    return [len(p) for p in read(world.clusters[0], topic).values()]
