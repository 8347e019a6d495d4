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
import threading
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import ConfigError
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.replicate.run import RunOptions, replicate
from drkit.spark.cluster import executors
from drkit.spark.session import plan_spark, spark_session
from drkit.verify.run import VerifyRequest, verify
from tests.support.errors import coded
from tests.support.flows.process import tree
from tests.support.flows.produce import Load, fill
from tests.support.spark.job_world import World
from tests.support.spark.spark_standalone import PYTHON, WORKERS, SparkCluster
from tests.support.waiting import eventually

TASKS = 3
NEEDED = TASKS + 1
"""All slots of the cluster; with one worker less there are fewer than tasks."""
LONG_SECONDS = 600.0
"""Of an epoch: no test waits for its end."""
POOR = "poor-python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path_factory.mktemp("spark"), {POOR: ("pyarrow", "confluent_kafka")})
    yield made
    made.stop()


@pytest.fixture
def settings(source: LocalCluster, target: LocalCluster) -> Settings:
    """A flow with a topic of 2,000 records."""
    tag = uuid.uuid4().hex[:8]
    a, b = (
        ClusterSettings(alias=f"{name}{tag}", bootstrap_servers=kafka.bootstrap())
        for name, kafka in (("a", source), ("b", target))
    )
    kafka = Cluster.connect(a)
    assert not create_topics(kafka, [TopicPlan(f"{tag}-orders", 3, 1)])
    eventually(lambda: f"{tag}-orders" in topic_names(kafka))
    fill(a, f"{tag}-orders", 2000)
    flow = FlowSettings(source=a.alias, target=b.alias, topics=(f"{tag}-.*",), tasks=TASKS, buckets=4)
    return Settings(clusters={a.alias: a, b.alias: b}, flows=(flow,))


@pytest.fixture
def config(settings: Settings, tmp_path: Path) -> Path:
    path, (flow,) = tmp_path / "drkit.toml", settings.flows
    clusters = "".join(
        f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n'
        for c in settings.clusters.values()
    )
    path.write_text(
        f'{clusters}[[flows]]\nsource = "{flow.source}"\ntarget = "{flow.target}"\n'
        f'topics = ["{flow.topics[0]}"]\ntasks = {TASKS}\nbuckets = 4\n'
    )
    return path


def start(config: Path, url: str, cluster: SparkCluster) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "drkit", "replicate", "--config", str(config), "--json", "--master", url,
            "--spark-properties", str(cluster.properties), "--conf", f"spark.pyspark.python={PYTHON}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def arguments(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.wide
def test_a_worker_on_which_drkit_cannot_run_ends_the_run_with_one_error(
    settings: Settings, cluster: SparkCluster, capsys: pytest.CaptureFixture[str]
):
    """At once, and for good: no flow is tried again."""
    options = RunOptions(master=cluster.url, conf=cluster.conf(POOR))
    with pytest.raises(ConfigError, check=coded("worker_lacks_packages")) as lacks:
        replicate(settings, settings.flows, options, threading.Event())
    assert lacks.value.evidence.startswith("confluent-kafka, pyarrow; ")
    assert str(cluster.folder / "worker-") in lacks.value.where
    assert "restarts_in_seconds" not in "".join(capsys.readouterr())


@pytest.mark.soak
def test_another_python_is_named_with_its_worker(cluster: SparkCluster):
    """Also after Spark has run in this process with a secret of its own."""
    with spark_session("drkit tests", 1):
        pass
    plan = plan_spark(cluster.url, 1, cluster.conf("other-python"))
    with (
        pytest.raises(ConfigError, check=coded("worker_other_python")) as refused,
        spark_session("drkit tests", plan),
    ):
        pass
    assert refused.value.evidence.startswith("Python 3.10 there, 3.")
    assert refused.value.where.startswith("127.0.0.1 executor ")


@pytest.mark.soak
def test_sigterm_while_a_master_says_nothing_ends_the_start(config: Path, cluster: SparkCluster):
    """A port that takes connections and is no master: Spark itself waits for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        starts = start(config, f"spark://127.0.0.1:{mute.getsockname()[1]}", cluster)
        probe, _ = mute.accept()
        registers, _ = mute.accept()
        with probe, registers:
            os.kill(starts.pid, signal.SIGTERM)
            answer, said = starts.communicate(timeout=50)
    assert starts.returncode == 0, said
    assert json.loads(answer)["flows"][0]["ended"] == "stopped"
    assert "stopped_while_spark_starts" in said
    assert "Traceback" not in said


@pytest.mark.wide
def test_workers_that_have_no_drkit_copy_exactly_while_one_is_killed(
    source: LocalCluster, target: LocalCluster, cluster: SparkCluster
):
    """Encrypted. Without the worker there are fewer slots than tasks: fewer are planned, until it is back."""
    plan = plan_spark(cluster.url, NEEDED, cluster.conf(), ["a password"])
    with spark_session("drkit tests", plan) as workshop:
        shown = [arguments(pid) for pid in tree(os.getpid())]
        assert any("SparkSubmit" in line for line in shown)
        assert not [line for line in shown if cluster.secret in line]
        eventually(lambda: len(executors(workshop.context)) == WORKERS, what="both workers")
        cluster.kill_worker(0)
        cluster.start_worker(0)
        eventually(lambda: cluster.pythons(0), what="a new worker that loads drkit before a task needs it")
        eventually(lambda: not workshop.faults(), what="all slots")
        world = World(source, target, workshop)
        orders = world.topic("orders", 6)
        job = world.job(epoch_seconds=LONG_SECONDS, tasks=TASKS)
        with Load(world.clusters[0], [orders], per_second=400) as load:
            world.start(job)
            eventually(lambda: world.failure or world.count(orders), what="the first records")
            busy = next(n for n in range(WORKERS) if cluster.pythons(n))

            cluster.kill_worker(busy)
            eventually(lambda: world.failure or workshop.faults(), what="the fault that slots are missing")
            assert workshop.faults()[0].text == "Spark has 2 of 4 slots: fewer tasks copy at once"
            records_arrive(world, orders, load)

            cluster.start_worker(busy)
            eventually(lambda: world.failure or not workshop.faults(), what="the end of the fault")
            records_arrive(world, orders, load)
        eventually(lambda: world.failure or world.same_length(orders), what="the end of the copy")
        world.end()
    assert not world.failure
    world.equal(orders)

    settings = Settings(clusters={c.alias: c for c in world.clusters}, flows=(job.flow,))
    (report,) = verify(settings, VerifyRequest(master=cluster.url, conf=cluster.conf(), topics=(orders,)))
    assert report.verdict.value == "equal"
    assert report.counts.source_records > 1000


def records_arrive(world: World, topic: str, load: Load) -> None:
    """In every partition: what is produced from now on."""
    known = world.lengths(1, topic)
    eventually(
        lambda: world.failure or all(a > b for a, b in zip(world.lengths(1, topic), known, strict=True)),
        what=f"records in all partitions, after {load.count}",
    )
    assert not world.failure
