"""``drkit replicate`` as its user runs it: exit codes, streams, signals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, list_offsets, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.cli.forked import Forked, drkit
from tests.support.errors import sentence
from tests.support.flows.produce import fill, producer, put
from tests.support.waiting import eventually

FLOW = """
source = "a{tag}"
target = "b{tag}"
topics = ["{tag}-.*"]
tasks = 1
buckets = 2
emit_heartbeats = false
"""
MAIN = "from drkit.cli.main import main; main()"


@pytest.fixture
def tag() -> str:
    return uuid.uuid4().hex[:8]


@pytest.fixture
def config(tmp_path: Path, tag: str) -> Callable[[str, str], Path]:
    def write(source: str, target: str) -> Path:
        path = tmp_path / "drkit.toml"
        path.write_text(
            f'[clusters.a{tag}]\nbootstrap_servers = "{source}"\n'
            f'[clusters.b{tag}]\nbootstrap_servers = "{target}"\n'
            f"[[flows]]{FLOW.format(tag=tag)}"
        )
        return path

    return write


def command(config: Path, *arguments: str) -> tuple[str, ...]:
    return ("replicate", "--config", str(config), "--json", *arguments)


def refused(config: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    done = drkit(*command(config, *arguments), environ=environment)
    assert not done.stdout
    return done.returncode, done.stderr


def unused_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_two_aliases_of_one_cluster_are_refused(config, source: LocalCluster):
    code, said = refused(config(source.bootstrap(), source.bootstrap("REPLICATION")))
    assert code == 3
    assert '"code": "clusters_identical"' in said


@pytest.mark.wide
def test_a_wrong_port_is_said_within_seconds(config, source: LocalCluster):
    code, said = refused(config(source.bootstrap(), f"127.0.0.1:{unused_port()}"))
    assert code == 1
    assert "nothing listens on this port" in said


def test_an_unknown_flow_is_a_configuration_error(config, source: LocalCluster, target: LocalCluster):
    code, said = refused(config(source.bootstrap(), target.bootstrap()), "--flow", "x->y")
    assert code == 2
    assert sentence("flow_unknown", name="x->y") in said


def test_too_few_slots_are_refused_before_spark_starts(config, source: LocalCluster, target: LocalCluster):
    path = config(source.bootstrap(), target.bootstrap())
    path.write_text(path.read_text().replace("tasks = 1", "tasks = 3"))
    code, said = refused(path, "--master", "local[2]", JAVA_HOME="/no-java")
    assert code == 3
    assert "2 slots, 4 tasks" in said


def test_a_second_replicator_is_refused_before_spark_starts(
    config, tag, source: LocalCluster, target: LocalCluster
):
    flow = FlowSettings(source=f"a{tag}", target=f"b{tag}", buckets=2)
    settings = ClusterSettings(alias=f"b{tag}", bootstrap_servers=target.bootstrap())
    ensure_state_topic(Cluster.connect(settings), flow)
    with StateTopic(settings, flow.source) as state:
        lease = FlowLease(settings, flow, state, "first")
        lease.acquire()
        try:
            code, said = refused(config(source.bootstrap(), target.bootstrap()), JAVA_HOME="/no-java")
        finally:
            lease.release()
    assert code == 3
    assert sentence("lease_held", flow=flow.name) in said
    assert "Traceback" not in said
    assert "starting Spark" not in said


def test_missing_rights_and_wrong_passwords_are_said_before_spark_starts(
    config, tag, source: LocalCluster, cluster_factory
):
    locked = cluster_factory("locked", sasl=True, authorizer=True)
    path = config(source.bootstrap(), locked.bootstrap())
    for user, password, words, error in (
        ("app", None, "12 permissions", "permissions_missing"),
        ("app", "hunter-2", f"b{tag}", "credentials_refused"),
    ):
        client = locked.client_properties(user) | ({"sasl.password": password} if password else {})
        lines = ", ".join(f'"{k}" = "{v}"' for k, v in client.items())
        text = path.read_text().partition("client = ")[0].partition("[[flows]]")
        path.write_text(f"{text[0]}client = {{ {lines} }}\n[[flows]]{FLOW.format(tag=tag)}")
        code, said = refused(path, JAVA_HOME="/no-java")
        assert code == 1
        assert f'"code": "{error}"' in said
        assert words in said
        assert "hunter-2" not in said


def test_dry_run_shows_the_plan_and_changes_nothing(config, tag, source: LocalCluster, target: LocalCluster):
    cluster = Cluster.connect(ClusterSettings(alias="a", bootstrap_servers=source.bootstrap()))
    create_topics(cluster, [TopicPlan(f"{tag}-orders", 2, 1)])
    eventually(lambda: f"{tag}-orders" in topic_names(cluster))
    path = config(source.bootstrap(), target.bootstrap())

    done = drkit(*command(path, "--dry-run"))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {
            "flow": f"a{tag}->b{tag}",
            "topic": f"{tag}-orders",
            "action": "create with 2 partitions, 1 replica",
            "reason": "",
        }
    ]
    standby = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    assert not [t for t in topic_names(standby) if tag in t]


@pytest.mark.wide
def test_ctrl_c_ends_it_with_an_answer_and_nothing_left_behind(
    config, tag, source: LocalCluster, target: LocalCluster, tmp_path: Path
):
    settings = ClusterSettings(alias="a", bootstrap_servers=source.bootstrap())
    create_topics(Cluster.connect(settings), [TopicPlan(f"{tag}-orders", 2, 1)])
    fill(settings, f"{tag}-orders", 1000)
    standby = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command(config(source.bootstrap(), target.bootstrap()))],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "said").open("w"),
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        eventually(lambda: process.poll() is not None or _copied(standby, f"{tag}-orders") == 1000, 120)
        assert process.poll() is None, (tmp_path / "said").read_text()
        process.send_signal(signal.SIGINT)  # Spark has a handler of its own for it
        answer, _ = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 0
    flow = json.loads(answer)["flows"][0]
    assert flow["ended"] == "stopped"
    assert flow["records"] == 1000
    assert not list(scratch.glob("drkit-*"))


@pytest.mark.wide
def test_what_an_open_transaction_holds_back_is_named(
    config, tag, source: LocalCluster, target: LocalCluster, tmp_path: Path
):
    """In the answer of a copy with an end, and in the progress of one without."""
    settings, topic = ClusterSettings(alias="a", bootstrap_servers=source.bootstrap()), f"{tag}-orders"
    create_topics(Cluster.connect(settings), [TopicPlan(topic, 1, 1)])
    fill(settings, topic, 10)
    began = time.time()
    out = producer(settings, transactional_id=f"{tag}-hangs")
    out.init_transactions(30)
    out.begin_transaction()
    put(out, topic, b"open")
    out.flush(30)
    fill(settings, topic, 20)
    path = config(source.bootstrap(), target.bootstrap())

    done = drkit(*command(path, "--once"))

    assert done.returncode == 0, done.stderr
    flow = json.loads(done.stdout)["flows"][0]
    assert (flow["ended"], flow["records"]) == ("complete", 10)
    [held] = flow["held_back"]
    assert (held["topic"], held["partition"], held["records"], held["acknowledged"]) == (topic, 0, 21, 20)
    [by] = held["transactions"]
    assert (by["transactional_id"], type(by["producer_id"])) == (f"{tag}-hangs", int)
    assert abs(datetime.fromisoformat(by["since"]).timestamp() - began) < 60
    assert by["end_it"].startswith("kafka-transactions.sh ")

    said = tmp_path / "said"
    process = Forked(*command(path), said=said)
    try:
        text = f"{topic}-0: up to 21 records by producer id {by['producer_id']} since {by['since']}"
        eventually(lambda: process.poll() is not None or text in said.read_text(), 120, "the progress line")
        assert process.poll() is None, said.read_text()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        out.abort_transaction(30)


def _copied(cluster: Cluster, topic: str) -> int:
    found = describe_topics(cluster, [topic])
    if topic not in found:
        return 0
    at = [TopicPartition(topic, p) for p in found[topic].leaders]
    return sum(list_offsets(cluster, at, "latest").values())
