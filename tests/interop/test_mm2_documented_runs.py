"""The files of Kafka's documentation, unchanged but for the addresses, run to their end on real clusters."""

from __future__ import annotations

from collections.abc import Iterable
import json
from pathlib import Path
import subprocess
import sys
from typing import Any, Final, NamedTuple

import pytest

from drkit.config import ClusterSettings
from drkit.config.mm2.keys import FLOW_KEYS
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, topic_names
from drkit.local.cluster import LocalCluster, start_together
from tests.support.flows.compare import read
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

RECORDS: Final = 60
FIRST: Final = """\
# Basic settings
clusters = primary, secondary
primary.bootstrap.servers = {a}
secondary.bootstrap.servers = {b}

# Define replication flows
primary->secondary.enabled = true
primary->secondary.topics = foobar-topic, quux-.*
"""
SAMPLE: Final = """\
clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
"""
EVERYTHING: Final = """\
clusters = us-west, us-east   # defines cluster aliases
us-west.bootstrap.servers = {a}
us-east.bootstrap.servers = {b}
topics = .*   # all topics to be replicated by default
groups = consumer-group1, consumer-group2
tasks.max = 5
us-west->us-east.enabled = true
us-west->us-east.topics = foo.*
us-west->us-east.groups = bar.*
us-west->us-east.emit.heartbeats = false
us-west->us-east.replication.policy.separator = _
us-west.offset.storage.topic = my-mirrormaker-offsets
us-west.consumer.isolation.level = read_committed
us-west.admin.bootstrap.servers = {a}
us-east.producer.compression.type = gzip
us-east.producer.buffer.memory = 32768
us-east.admin.bootstrap.servers = {b}
us-east.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
"""
EVERY_KEY: Final = (
    "clusters = A, B\nA.bootstrap.servers = {a}\nB.bootstrap.servers = {b}\nA->B.enabled = true\n"
    + "".join(f"{k.name} = {k.default}\n".replace("\\", r"\\") for k in FLOW_KEYS if k.default)
    + "replication.factor = 1\nsync.group.offsets.enabled = true\nkey.converter = x\n"
    "A.consumer.max.poll.records = 5\nB.producer.linger.ms = 5\nadmin.retries = 3\n"
    "A->B.source.consumer.fetch.max.bytes = 4194304\nA->B.target.producer.request.timeout.ms = 20000\n"
)
"""Every key of a flow with MirrorMaker 2's own default, and overrides of each kind."""


class Example(NamedTuple):
    """A file, the topics that both clusters have before, and those that appear."""

    file: str
    brokers: int
    before: tuple[set[str], set[str]]
    appear: tuple[set[str], set[str]]
    replicas: int
    """Of the copies: two where the file says nothing."""


EXAMPLES: Final = {
    "first": Example(
        FIRST, 2,
        ({"foobar-topic", "quux-1", "other"}, set()),
        (set(), {"primary.foobar-topic", "primary.quux-1"}), 2,
    ),
    "sample": Example(
        SAMPLE, 1,
        ({"orders"}, {"orders", "returns"}),
        ({"B.orders", "B.returns"}, {"A.orders"}), 1,
    ),
    "everything": Example(
        EVERYTHING, 2,
        ({"foo-1", "bar-1"}, set()),
        (set(), {"us-west_foo-1"}), 2,
    ),
    "every key": Example(
        EVERY_KEY, 1, ({"orders", "x.replica"}, set()), (set(), {"A.orders"}), 1,
    ),
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_of_the_documentation_runs_unchanged(name: str, cluster_factory: Any, tmp_path: Path):
    """P21: checked, run to its end, verified, and run again without a record."""
    example = EXAMPLES[name]
    locals_ = [cluster_factory(side, start=False, brokers=example.brokers) for side in ("a", "b")]
    start_together(*locals_)
    sides = [_side(cluster) for cluster in locals_]
    for side, topics in zip(sides, example.before, strict=True):
        _fill(side, topics)
    file = tmp_path / "mm2.properties"
    file.write_text(example.file.format(a=locals_[0].bootstrap(), b=locals_[1].bootstrap()))

    checked = _drkit("config", "check", "--connect", file=file)
    assert checked["result"] == "OK"
    copied = _drkit("replicate", "--once", file=file)
    assert [f["left_out"] for f in copied["flows"]] == [{}] * len(copied["flows"])

    for side, before, appear in zip(sides, example.before, example.appear, strict=True):
        there = {t for t in topic_names(side) if not _of_state(t)}
        assert there == before | appear
        found = describe_topics(side, appear)
        assert {t.replication_factor for t in found.values()} <= {example.replicas}
        for topic in appear:
            assert sum(map(len, read(side.settings, topic).values())) == RECORDS
    _drkit("verify", file=file)
    again = _drkit("replicate", "--once", file=file)
    assert [f["records"] for f in again["flows"]] == [0] * len(again["flows"])


def _side(cluster: LocalCluster) -> Cluster:
    name = cluster.spec.name
    return Cluster.connect(ClusterSettings(alias=name, bootstrap_servers=cluster.bootstrap()))


def _fill(side: Cluster, topics: Iterable[str]) -> None:
    names = sorted(topics)
    assert not create_topics(side, [TopicPlan(n, 2, 1) for n in names])
    eventually(lambda: set(names) <= set(topic_names(side)), what="topics")
    for name in names:
        fill(side.settings, name, RECORDS)


def _of_state(topic: str) -> bool:
    """Topics of Kafka, of drkit, and those in which MirrorMaker 2 keeps its own."""
    return topic.startswith(("__", "drkit-", "mm2-")) or topic.endswith(("internal", "heartbeats"))


def _drkit(*words: str, file: Path) -> Any:
    command = [sys.executable, "-m", "drkit", "--json", *words, "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
