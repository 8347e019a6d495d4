"""drkit on a real Spark cluster: workers in folders of their own, which have no drkit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import uuid

import pytest

from drkit.config import ClusterSettings
from drkit.errors import ConfigError
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.replicate.job import FlowJob
from drkit.replicate.session import Workshop, plan_spark, spark_session
from drkit.replicate.spark_conf import given_conf
from tests.replicate.job_world import TASKS, World
from tests.replicate.process import eventually, tree
from tests.replicate.produce import fill
from tests.replicate.spark_standalone import PYTHON, SparkCluster

WORKERS = 2
NEEDED = TASKS + 1
LONG_SECONDS = 600.0
"""Of an epoch: no test waits for its end."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    lacking = {"poor-python": ("pyarrow", "confluent_kafka")}
    made = SparkCluster(tmp_path_factory.mktemp("spark"), WORKERS, lacking)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def workshop(cluster: SparkCluster) -> Iterator[Workshop]:
    plan = plan_spark(cluster.url, NEEDED, conf_of(cluster, PYTHON), ["sasl.password of a"])
    with spark_session("drkit tests", plan) as made:
        yield made


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, workshop: Workshop) -> Iterator[World]:
    made = World(source, target, workshop)
    yield made
    if made.thread is not None and made.thread.is_alive():
        made.end()


@pytest.fixture
def config(tmp_path: Path, source: LocalCluster, target: LocalCluster) -> Path:
    tag = uuid.uuid4().hex[:8]
    from_ = ClusterSettings(alias=f"a{tag}", bootstrap_servers=source.bootstrap())
    assert not create_topics(Cluster.connect(from_), [TopicPlan(f"{tag}-orders", 3, 1)])
    eventually(lambda: f"{tag}-orders" in topic_names(Cluster.connect(from_)))
    fill(from_, f"{tag}-orders", 2000)
    path = tmp_path / "drkit.toml"
    path.write_text(
        f'[clusters.a{tag}]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.b{tag}]\nbootstrap_servers = "{target.bootstrap()}"\n'
        f'[[flows]]\nsource = "a{tag}"\ntarget = "b{tag}"\ntopics = ["{tag}-.*"]\ntasks = 2\nbuckets = 4\n'
    )
    return path


def conf_of(cluster: SparkCluster, python: str) -> dict[str, str]:
    return given_conf([f"spark.pyspark.python={python}"], cluster.properties)


def command(name: str, config: Path, url: str, cluster: SparkCluster, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "drkit", name, "--config", str(config), "--json", "--master", url,
        "--spark-properties", str(cluster.properties), *more,
    ]  # fmt: skip


def arguments(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def executors(cluster: SparkCluster, number: int) -> list[int]:
    return [p for p in cluster.pids(number)[1:] if "worker_daemon" in arguments(p)]


def test_drkit_ships_itself_to_workers_that_have_none_and_verifies_there(config: Path, cluster: SparkCluster):
    """Encrypted; no process shows the secret in its arguments."""
    (secret,) = (line.split()[1] for line in cluster.properties.read_text().splitlines() if "secret" in line)
    python = ("--conf", f"spark.pyspark.python={PYTHON}")
    copy = subprocess.Popen(
        command("replicate", config, cluster.url, cluster, "--once", *python),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = set[str]()

    def ended() -> bool:
        seen.update(map(arguments, tree(copy.pid)))
        return copy.poll() is not None

    eventually(ended, 120, "the end of the copy")
    answer, said = copy.communicate()
    assert copy.returncode == 0, said
    (flow,) = json.loads(answer)["flows"]
    assert (flow["ended"], flow["records"], flow["left_out"]) == ("complete", 2000, {})
    assert "spark_workers" in said
    assert "Traceback" not in said
    assert any("spark.network.crypto.enabled=true" in line for line in seen), "Spark's JVM was seen"
    assert not [line for line in seen if secret in line]

    done = subprocess.run(
        command("verify", config, cluster.url, cluster, *python), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows"][0]["records"] == 2000, done.stdout


@pytest.mark.parametrize(
    ("python", "what", "evidence"),
    [
        ("poor-python", "a Spark worker lacks what drkit needs", "confluent-kafka, pyarrow; "),
        ("other-python", "a Spark worker runs another Python than drkit", "Python 3.10 there, 3."),
        ("no-such-python", "a Spark worker has no Python of this name", "no-such-python"),
    ],
)
def test_a_worker_on_which_drkit_cannot_run_is_one_clear_line(
    config: Path, cluster: SparkCluster, python: str, what: str, evidence: str
):
    done = subprocess.run(
        command("replicate", config, cluster.url, cluster, "--conf", f"spark.pyspark.python={python}"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert done.stderr.count(what) == 1, done.stderr
    assert evidence in done.stderr
    assert "docs/spark-cluster.md" in done.stderr
    assert "Traceback" not in done.stderr
    assert "restarts_in_seconds" not in done.stderr


def test_sigterm_while_a_master_says_nothing_ends_the_start(config: Path, cluster: SparkCluster):
    """A port that takes connections and is no master: Spark itself waits for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"spark://127.0.0.1:{mute.getsockname()[1]}"
        starts = subprocess.Popen(
            command("replicate", config, url, cluster),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        probe, _ = mute.accept()
        registers, _ = mute.accept()
        with probe, registers:
            os.kill(starts.pid, signal.SIGTERM)
            answer, said = starts.communicate(timeout=30)
    assert starts.returncode == 0, said
    assert json.loads(answer)["flows"][0]["ended"] == "stopped"
    assert "stopped_while_spark_starts" in said
    assert "Traceback" not in said


def test_a_killed_workers_partitions_are_copied_by_the_others(world: World, cluster: SparkCluster):
    """Under load: with a free slot the task starts there; without one the flow plans fewer tasks."""
    orders = world.topic("orders", 6)
    fill(world.clusters[0], orders, 1000)
    job = world.start(world.job(epoch_seconds=LONG_SECONDS, sync_group_offsets=False))
    world.arrives(orders, 1000)
    eventually(lambda: any(executors(cluster, n) for n in range(WORKERS)), what="Python on the workers")
    (busy, *_) = [n for n in range(WORKERS) if executors(cluster, n)]

    cluster.kill_worker(busy)
    fill(world.clusters[0], orders, 1000, first=1000)
    world.arrives(orders, 2000)
    eventually(world.workshop.faults, 30, "what says that slots are missing")
    copying(world, job, orders, 2000)

    cluster.start_worker(busy)
    eventually(lambda: not world.workshop.faults(), 60, "the end of the fault")
    copying(world, job, orders, 3000)


def copying(world: World, job: FlowJob, topic: str, count: int) -> None:
    """More records arrive in every partition, and what is there is exact."""
    fill(world.clusters[0], topic, 1000, first=count)
    world.arrives(topic, count + 1000)
    assert len(job.leases()) == 6
