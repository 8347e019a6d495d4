"""Brokers start, stop, die, freeze and come back."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import signal
import socket
import subprocess
import sys
import threading

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
import pytest

from drkit.errors import ConfigError, Failed
from drkit.local.broker import PortTaken
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.process import ProcessIdentity
from drkit.local.spec import ClusterSpec
from tests.support.circles import in_soak
from tests.support.waiting import wait_until


def _create(bootstrap, topic, replication_factor=1):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replication_factor)])[topic].result(30)


def _produce(bootstrap, topic, value):
    failures = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error))
    producer.flush(30)
    assert failures == [None]


def _read(bootstrap, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [message.value() for message in consumer.consume(count, 30)]
    consumer.close()
    return found


@pytest.mark.wide
def test_every_role_has_its_own_listener_and_all_lead_to_the_same_cluster(source, topic_name):
    ports = {role: source.bootstrap(role) for role in ("CLIENT", "REPLICATION", "PROBE")}
    assert len(set(ports.values())) == 3
    _create(ports["CLIENT"], topic_name)
    _produce(ports["REPLICATION"], topic_name, b"one")
    assert _read(ports["PROBE"], topic_name, 1) == [b"one"]


@pytest.mark.parametrize("name", ["ü", '☃ 😀 "q" \\t$x=#'])
def test_all_data_is_in_the_named_folder(name, tmp_path):
    with LocalCluster(ClusterSpec("own"), folder=tmp_path / name) as cluster:
        assert [file.name for file in tmp_path.iterdir()] == [name]
        assert (cluster.brokers[0].folder / "data" / "__cluster_metadata-0").is_dir()
        assert "Kafka Server started" in (cluster.brokers[0].folder / "server.log").read_text()


@pytest.mark.wide
def test_source_and_target_are_two_clusters(source, target):
    assert source.cluster_id != target.cluster_id
    assert source.broker(0).view() is not None
    assert target.broker(0).view() is not None


@pytest.mark.wide
def test_an_unknown_role_is_named(source):
    with pytest.raises(ConfigError) as caught:
        source.bootstrap("ADMIN")
    assert "CLIENT" in caught.value.hint


@pytest.mark.wide
def test_a_killed_broker_comes_back_with_its_id_port_and_data(module_cluster, topic_name):
    cluster = module_cluster("own")
    bootstrap = cluster.bootstrap()
    _create(bootstrap, topic_name)
    _produce(bootstrap, topic_name, b"before")
    broker = cluster.broker(0)
    first_pid = broker.pid

    broker.kill()
    assert not broker.running
    assert broker.view() is None
    broker.restart()

    assert broker.pid != first_pid
    assert cluster.bootstrap() == bootstrap
    _produce(bootstrap, topic_name, b"after")
    assert _read(bootstrap, topic_name, 2) == [b"before", b"after"]

    broker.freeze()
    assert broker.running
    assert broker.view() is None
    broker.resume()
    wait_until(broker.view)

    broker.terminate()
    assert not broker.running
    assert "shut down completed" in broker.log.read_text()


@pytest.mark.wide
def test_a_foreign_listener_on_a_dead_brokers_port_is_told(module_cluster):
    cluster = module_cluster("own")
    broker = cluster.broker(0)
    host, port = cluster.bootstrap().split(":")
    broker.kill()
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind((host, int(port)))
        foreign.listen()
        with pytest.raises(PortTaken):
            broker.restart()
    broker.restart()
    assert broker.view() is not None


@pytest.mark.wide
def test_two_of_three_brokers_go_on(module_cluster, topic_name):
    cluster = module_cluster("three", brokers=3)
    _create(cluster.bootstrap(), topic_name, replication_factor=3)
    cluster.broker(1).kill()
    wait_until(lambda: cluster.broker(0).view().node_ids == {0, 2})
    _produce(cluster.bootstrap(), topic_name, b"two are enough")
    cluster.restart()
    assert cluster.broker(1).view().node_ids == {0, 1, 2}
    assert _read(cluster.bootstrap(), topic_name, 1) == [b"two are enough"]


@pytest.mark.wide
def test_a_broker_that_cannot_start_is_reported_with_its_logs(cluster_factory):
    with pytest.raises(Failed) as caught:
        cluster_factory(properties={"authorizer.class.name": "no.such.Authorizer"})
    assert "no.such.Authorizer" in caught.value.evidence
    logs = Path(caught.value.hint.removeprefix("its logs: "))
    assert (logs / "server.log").exists()


# The broker is started by a thread that ends at once: a death signal tied to that thread would kill it.
_STARTER = """
import sys, threading
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
cluster = LocalCluster(ClusterSpec("starter"))
thread = threading.Thread(target=cluster.start)
thread.start()
thread.join()
assert cluster.broker(0).view() is not None
print(cluster.broker(0).pid, cluster.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, in_soak(signal.SIGTERM)])
def test_no_broker_survives_the_process_that_started_it(how):
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout
        pid, folder = starter.stdout.readline().split()
        broker = ProcessIdentity.of(int(pid))
        assert broker.alive
        starter.send_signal(how)
        starter.wait(10)
        wait_until(lambda: not broker.alive, 10)
    shutil.rmtree(folder)


@pytest.mark.wide
def test_no_broker_survives_its_launcher(module_cluster):
    broker = module_cluster("own").broker(0)
    jvm = ProcessIdentity.of(broker.pid)
    broker._process.kill_launcher()
    wait_until(lambda: not jvm.alive, 10)


class _Interrupted(BaseException):
    pass


def _interrupt(*_signal):
    raise _Interrupted


def _begun(_clusters):
    return True


def _some_folder(clusters):
    return any(broker.folder.exists() for cluster in clusters for broker in cluster.brokers)


def _some_broker(clusters):
    return any(broker.running for cluster in clusters for broker in cluster.brokers)


@pytest.mark.parametrize("moment", [in_soak(_begun), in_soak(_some_folder), _some_broker])
def test_an_interrupted_start_leaves_no_broker_and_writes_nothing_more(tmp_path, moment):
    clusters = [LocalCluster(ClusterSpec(name), folder=tmp_path / name) for name in ("left", "right")]
    before = signal.signal(signal.SIGALRM, _interrupt)

    def interrupt():
        wait_until(lambda: moment(clusters), 60)
        os.kill(os.getpid(), signal.SIGALRM)

    def start():
        watcher = threading.Thread(target=interrupt, daemon=True)
        watcher.start()
        start_together(*clusters)
        watcher.join()

    try:
        with pytest.raises(_Interrupted):
            start()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not _some_broker(clusters)
    shutil.rmtree(tmp_path)
    threading.Event().wait(1.0)
    assert not tmp_path.exists()
