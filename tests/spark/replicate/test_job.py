"""Whole flows on Spark between real brokers."""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
from pathlib import Path
import signal
import threading

import pytest

from drkit import observe
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.errors import ConfigError, DrkitError, Failed, Refused
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from drkit.replicate.epochs import EpochLoop, Epochs
from drkit.replicate.planner import PlacedPartition, Rates
from drkit.spark.master import choose_master
from drkit.spark.session import SharedSpark, spark_session
from tests.support.errors import coded
from tests.support.flows.produce import fill
from tests.support.spark.job_world import TASKS, World
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def workshop() -> Iterator[SharedSpark]:
    """One Spark session for all tests of this file."""
    with spark_session("drkit tests", TASKS) as made:
        yield made
    assert not made.folder.exists()


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, workshop: SharedSpark) -> Iterator[World]:
    made = World(source, target, workshop)
    yield made
    if made.thread is not None and made.thread.is_alive():
        made.end()


def test_once_copies_everything_that_is_there_and_ends(world: World):
    """P3, P21: ``--once`` copies each partition into the same partition, and ends."""
    orders, empty = world.topic("orders", 3), world.topic("empty")
    fill(world.clusters[0], orders, 5000)
    job = world.job(once=True)

    job.run(world.stop)

    world.equal(orders)
    world.equal(empty)
    assert job.progress is not None
    assert job.progress.totals.records == 5000
    assert job.all_copied()
    assert not job.found.left_out

    again = world.job(once=True)
    again.run(world.stop)
    assert again.progress is not None
    assert again.progress.totals.records == 0
    world.equal(orders)


@pytest.mark.wide
def test_once_reports_every_event_of_its_last_epoch(world: World, capsys: pytest.CaptureFixture[str]):
    """What the source removed before it was copied is named, also when a transaction hides the event."""
    observe.setup("json", "info")
    orders = world.topic("orders", 1)
    fill(world.clusters[0], orders, 50)
    world.job(once=True).run(world.stop)
    fill(world.clusters[0], orders, 50, first=50)
    world.remove(orders, 100)

    job = world.job(once=True)

    def begun() -> None:
        world.start(job)
        eventually(lambda: job.progress, what="the run, which has read the whole state")

    with world.open_transaction(begun):
        eventually(job.all_copied, what="the end of the copy")
        assert world.thread is not None
        world.thread.join(3)
    world.thread.join(60)

    events = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    gaps = [(e["topic"], e["from_offset"], e["to_offset"]) for e in events if e["event"] == "source_gap"]
    assert gaps == [(orders, 50, 100)]


def test_once_without_a_matching_topic_says_so(world: World):
    with pytest.raises(ConfigError, check=coded("no_topic_matches")):
        world.job(once=True).run(world.stop)


def test_a_running_flow_finds_topics_and_stops_within_seconds(world: World):
    """P17: a running flow copies a topic that came after its start."""
    first = world.topic("first")
    fill(world.clusters[0], first, 1000)
    world.start(world.job())
    world.arrives(first, 1000)

    second = world.topic("second")
    fill(world.clusters[0], second, 500)
    fill(world.clusters[0], first, 500, first=1000)
    world.arrives(second, 500)
    world.arrives(first, 1500)

    world.end()
    assert not world.failure


def test_one_lost_topic_stops_no_other(world: World):
    lost, kept = world.topic("lost"), world.topic("kept")
    fill(world.clusters[0], lost, 100)
    fill(world.clusters[0], kept, 100)
    job = world.start(world.job())
    world.arrives(lost, 100)
    assert not delete_topics(world.target, [lost])

    eventually(lambda: world.failure or job.found.left_out.get(lost), what="the lost topic's name")
    fill(world.clusters[0], kept, 100, first=100)

    world.arrives(kept, 200)
    assert job.found.left_out[lost].startswith("target_deleted")
    assert {x.source_topic for x in job.leases()} == {kept}


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_repeated(world: World):
    topic = world.topic("orders", 4)
    fill(world.clusters[0], topic, 2000)
    world.start(world.job())
    world.arrives(topic, 2000)

    workers = _python_workers()
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    fill(world.clusters[0], topic, 2000, first=2000)

    world.arrives(topic, 4000)


@pytest.mark.wide
def test_a_task_that_ends_alone_stops_no_partition(world: World):
    """Another task takes its part of the map; the epoch's others would copy on for ten minutes."""
    topic = world.topic("orders", 4)
    fill(world.clusters[0], topic, 2000)
    job = world.start(world.job(epoch_seconds=600.0))
    world.arrives(topic, 2000)

    world.take_bucket(job.leases()[0].bucket)
    loop = job.cut
    assert loop is not None
    eventually(lambda: world.failure or loop._jobs.tasks.ended, what="the end of a task, at its next mark")
    fill(world.clusters[0], topic, 2000, first=2000)

    world.arrives(topic, 4000)


@pytest.mark.wide
def test_a_flow_whose_offset_map_is_deleted_ends_with_the_cause(world: World):
    topic = world.topic("orders")
    fill(world.clusters[0], topic, 100)
    job = world.start(world.job())
    world.arrives(topic, 100)
    offset_map = offset_map_topic(world.source.alias)
    assert not delete_topics(world.target, [offset_map])
    world.topic("another")  # the plan changes, so new tasks look for the map

    eventually(lambda: world.failure, what="the end of the query")
    died = world.failure[0]
    assert isinstance(died, Refused)
    assert died.code == "internal_topic_deleted"
    assert "the offset map" in died.what
    # A new map would copy everything a second time.
    with pytest.raises(Refused, check=coded("map_deleted")):
        job.run(threading.Event())
    assert world.count(topic) == 100


def test_a_copy_job_that_dies_is_named_with_its_cause(world: World):
    """The error of a copy task is reported in one sentence, without Spark's and Java's stack traces."""
    job = world.job()
    partition = PartitionAssignment("t", "no id", "t", "no id", 0, 0)
    frame = TaskAssignment(
        flow=job.flow.name, run_id="run", epoch=0, task=0, plan=1, producer_id=1, producer_epoch=0,
        own_producer_ids=(1,), skip_producer_ids=(), map_topic="no-such-map", state_topic="no-such-state",
        epoch_seconds=1.0, grace_seconds=1.0, live_max_age_ms=1, partitions=(),
    )  # fmt: skip

    def ended(_attempt: int) -> DrkitError:
        epochs = Epochs(frame, 1, Rates())
        epochs.update([PlacedPartition(partition, 0)])
        loop = EpochLoop(world.workshop, epochs, world.clusters, job.flow, lambda _: None)
        loop.start()
        eventually(lambda: not loop.is_active, 120, "the end of the epochs")
        return loop.failure()

    # Spark gives a new Python process ten seconds: on a busy machine that is another cause, of its own.
    causes = map(ended, range(3))
    died = next(c for c in causes if "Python worker failed to connect back" not in c.evidence)
    assert type(died) is Failed
    assert (died.code, died.where) == ("copy_job_died", job.flow.name)
    assert died.evidence == "ValueError: badly formed hexadecimal UUID string"


@pytest.mark.wide
def test_a_second_job_of_a_flow_is_refused(world: World):
    world.topic("orders")
    job = world.start(world.job())
    eventually(lambda: world.failure or job.leases(), what="the first job's plan")

    with pytest.raises(Refused, check=coded("lease_held")):
        world.job().run(threading.Event())


def test_masters_with_too_few_slots_are_refused_with_the_numbers():
    assert choose_master(None, 3) == ("local[4,4]", 4)
    assert choose_master("local[5]", 3) == ("local[5,4]", 5)
    assert choose_master("local[5,2]", 3) == ("local[5,2]", 5)
    assert choose_master("spark://host:7077", 3).slots is None
    with pytest.raises(Refused) as refused:
        choose_master("local[2]", 3)
    assert refused.value.evidence == "2 slots, 3 tasks"


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, check=coded("spark_java_missing")), spark_session("none", 1):
        pass


def _python_workers() -> list[int]:
    """Spark's forked Python workers below this process: children of its Python daemon."""
    parents: dict[int, tuple[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(encoding="utf-8", errors="replace")
            command = (stat.parent / "cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # ended while we looked
        parents[int(stat.parent.name)] = (int(text.rpartition(")")[2].split()[1]), command)

    def below(pid: int) -> bool:
        while pid in parents:
            if pid == os.getpid():
                return True
            pid = parents[pid][0]
        return False

    daemons = {p for p, (_, command) in parents.items() if "worker_daemon" in command}
    return [p for p, (parent, _) in parents.items() if parent in daemons and below(p)]
