"""The contract of ``drkit replicate`` on brokers in containers, where a Docker engine answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
import json
from pathlib import Path
import subprocess
import sys
import time
from typing import NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
import pytest
from testcontainers.community.kafka import KafkaContainer

from drkit.config import ClusterSettings
from drkit.kafka import topics
from drkit.kafka.admin import Cluster

# By name, because the folder docker/ of this repository looks like a package to type checkers.
docker = pytest.importorskip("docker")
IMAGE = "confluentinc/cp-kafka:8.0.0"
RECORDS = 2_000
PARTITIONS = 3


class Pair(NamedTuple):
    primary: str
    standby: str


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    try:
        docker.from_env().ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    with ExitStack() as stack:
        ids = ("cHJpbWFyeS1wcmltYXJ5LQ", "c3RhbmRieS1zdGFuZGJ5LQ")
        servers = [
            stack.enter_context(KafkaContainer(IMAGE).with_kraft().with_cluster_id(i)).get_bootstrap_server()
            for i in ids
        ]
        yield Pair(*servers)


def drkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drkit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def produce(servers: str, topic: str) -> None:
    settings = ClusterSettings(alias="primary", bootstrap_servers=servers)
    failed = topics.create_topics(Cluster.connect(settings), [topics.TopicPlan(topic, PARTITIONS, 1)])
    assert not failed, failed
    producer = Producer({"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": 5})
    for number in range(RECORDS):
        value = None if number % 50 == 0 else f"value-{number}".encode()
        producer.produce(
            topic, value, f"key-{number % 97}".encode(), headers=[("number", str(number).encode())]
        )
    assert producer.flush(60) == 0


def read(servers: str, topic: str) -> list[list[tuple[object, ...]]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "check", "enable.auto.commit": False})
    found: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        deadline = time.monotonic() + 60
        while sum(map(len, found)) < RECORDS:
            assert time.monotonic() < deadline, f"{sum(map(len, found))} records of {RECORDS}"
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found[message.partition() or 0].append(content(message))
    finally:
        consumer.close()
    return found


def content(message: Message) -> tuple[object, ...]:
    return message.key(), message.value(), message.timestamp(), message.headers()


@pytest.mark.timeout(900)
def test_once_copies_everything_and_verify_agrees(pair: Pair, tmp_path: Path):
    config = tmp_path / "drkit.toml"
    config.write_text(
        f'[clusters.primary]\nbootstrap_servers = "{pair.primary}"\n'
        f'[clusters.standby]\nbootstrap_servers = "{pair.standby}"\n'
        '[[flows]]\nsource = "primary"\ntarget = "standby"\nreplication_factor = 1\n'
    )
    produce(pair.primary, "orders")
    for _ in range(2):  # the second run has nothing to do, and must do nothing
        done = drkit("replicate", "--once", "--config", str(config))
        assert done.returncode == 0, done.stderr
    assert read(pair.standby, "orders") == read(pair.primary, "orders")
    verified = drkit("verify", "--json", "--config", str(config))
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)
