"""The contract of ``drkit replicate`` on brokers in containers, where a Docker engine answers."""

from __future__ import annotations

import json
from pathlib import Path
import re
import subprocess
import sys

from confluent_kafka import Producer
import pytest
from testcontainers.core.container import DockerContainer

from drkit.config import ClusterSettings
from drkit.kafka import topics
from drkit.kafka.admin import Cluster
from tests.containers.conftest import CLUSTERS, REPOSITORY, Pair, said
from tests.support.flows.compare import read

RECORDS = 2_000
PARTITIONS = 3
CONFIG = "/etc/drkit/drkit.toml"


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


def check_equal(pair: Pair, topic: str) -> None:
    source, target = (
        [[seen.content for seen in records] for _, records in sorted(read(settings, topic).items())]
        for settings in (
            ClusterSettings(alias="primary", bootstrap_servers=pair.primary),
            ClusterSettings(alias="standby", bootstrap_servers=pair.standby),
        )
    )
    assert sum(map(len, source)) == RECORDS
    assert target == source


@pytest.mark.timeout(900)
def test_once_copies_everything_and_verify_agrees(pair: Pair, tmp_path: Path):
    config = tmp_path / "drkit.toml"
    config.write_text(
        f'[clusters.primary]\nbootstrap_servers = "{pair.primary}"\n'
        f'[clusters.standby]\nbootstrap_servers = "{pair.standby}"\n'
        '[[flows]]\nsource = "primary"\ntarget = "standby"\ntopics = ["orders"]\n'
    )
    looked = drkit("config", "check", "--connect", "--json", "--config", str(config))
    ids = [cluster["cluster_id"] for cluster in json.loads(looked.stdout)["clusters"]]
    assert ids[0] == CLUSTERS["primary"]
    assert re.fullmatch(r"[\w-]{22}", ids[1])
    produce(pair.primary, "orders")
    for _ in range(2):  # the second run has nothing to do, and must do nothing
        done = drkit("replicate", "--once", "--config", str(config))
        assert done.returncode == 0, done.stderr
    check_equal(pair, "orders")
    verified = drkit("verify", "--json", "--config", str(config))
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)


@pytest.mark.timeout(900)
def test_the_image_of_drkit_copies_in_the_network_of_the_brokers(pair: Pair, drkit_image: str):
    produce(pair.primary, "payments")
    container = DockerContainer(drkit_image, network=pair.network)
    container.with_command(["replicate", "--once", "--config", CONFIG])
    # The very file of docker/compose.yaml.
    with container.with_copy_into_container(REPOSITORY / "docker/drkit.toml", CONFIG):
        ended = container.get_wrapped_container().wait(timeout=240)
        assert ended["StatusCode"] == 0, said(container)
    check_equal(pair, "payments")
