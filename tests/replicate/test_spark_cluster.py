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
from drkit.replicate.run import Options, replicate
from drkit.replicate.session import Workshop, plan_spark, spark_session
from drkit.replicate.verify import Request, verify
from tests.replicate.job_world import TASKS, World
from tests.replicate.process import eventually, tree
from tests.replicate.produce import Load, fill
from tests.replicate.spark_standalone import PYTHON, WORKERS, SparkCluster

NEEDED = TASKS + 1
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


def test_drkit_ships_itself_to_workers_that_have_none_and_verifies_there(
    settings: Settings, cluster: SparkCluster
):
    """Encrypted; no process shows the secret in its arguments."""
    options = Options(once=True, master=cluster.url, conf=cluster.conf())
    answer = replicate(settings, settings.flows, options, threading.Event())
    (flow,) = answer.flows
    assert (flow["ended"], flow["records"], flow["left_out"]) == ("complete", 2000, {})
    seen = [arguments(pid) for pid in tree(os.getpid())]
    assert any("spark.network.crypto.enabled=true" in line for line in seen), "Spark's JVM was seen"
    assert not [line for line in seen if cluster.secret in line]

    request = Request(master=cluster.url, conf=cluster.conf())
    (report,) = verify(settings, request)
    assert (report.verdict.value, report.counts.source_records) == ("equal", 2000)


def test_a_worker_on_which_drkit_cannot_run_ends_the_run_with_one_error(
    settings: Settings, cluster: SparkCluster, capsys: pytest.CaptureFixture[str]
):
    """At once, and for good: no flow is tried again."""
    options = Options(master=cluster.url, conf=cluster.conf(POOR))
    with pytest.raises(ConfigError, match="a Spark worker lacks what drkit needs") as lacks:
        replicate(settings, settings.flows, options, threading.Event())
    assert lacks.value.evidence.startswith("confluent-kafka, pyarrow; ")
    assert str(cluster.folder / "worker-") in lacks.value.where
    assert "restarts_in_seconds" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("python", "what", "evidence"),
    [
        ("other-python", "another Python than drkit", "Python 3.10 there, 3."),
        ("no-such-python", "no Python of this name", "no-such-python"),
    ],
)
def test_another_python_is_named_with_the_worker(
    cluster: SparkCluster, python: str, what: str, evidence: str
):
    plan = plan_spark(cluster.url, 1, cluster.conf(python))
    with pytest.raises(ConfigError, match=what) as refused, spark_session("drkit tests", plan):
        pass
    assert refused.value.evidence.startswith(evidence)
    assert refused.value.where.startswith("127.0.0.1 executor ")


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


@pytest.fixture(scope="module")
def workshop(cluster: SparkCluster) -> Iterator[Workshop]:
    """Of the last tests: a process has one Spark at a time."""
    with spark_session(
        "drkit tests", plan_spark(cluster.url, NEEDED, cluster.conf(), ["a password"])
    ) as made:
        yield made


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster, workshop: Workshop) -> Iterator[World]:
    made = World(source, target, workshop)
    yield made
    if made.thread is not None and made.thread.is_alive():
        made.end()


def test_a_killed_workers_partitions_are_copied_by_the_others(world: World, cluster: SparkCluster):
    """Its task goes on in the free slot; then the flow plans fewer tasks, and all when the worker is back."""
    orders = world.topic("orders", 6)
    job = world.job(epoch_seconds=LONG_SECONDS)
    with Load(world.clusters[0], [orders], per_second=400) as load:
        world.start(job)
        eventually(lambda: world.failure or world.count(orders), what="the first records")
        busy = next(n for n in range(WORKERS) if cluster.pythons(n))

        cluster.kill_worker(busy)
        eventually(lambda: world.failure or world.workshop.faults(), what="the event that slots are missing")
        (fault,) = world.workshop.faults()
        assert fault.text == "Spark has 2 of 3 slots: fewer tasks copy at once"
        records_arrive(world, orders, load)

        cluster.start_worker(busy)
        eventually(lambda: world.failure or not world.workshop.faults(), what="the end of the fault")
        records_arrive(world, orders, load)
    eventually(lambda: world.failure or world.same_length(orders), what="the end of the copy")
    assert not world.failure
    world.equal(orders)


def records_arrive(world: World, topic: str, load: Load) -> None:
    """In every partition: what is produced from now on."""
    known = world.lengths(1, topic)
    eventually(
        lambda: world.failure or all(a > b for a, b in zip(world.lengths(1, topic), known, strict=True)),
        what=f"records in all partitions, after {load.count}",
    )
    assert not world.failure
