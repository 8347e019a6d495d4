"""The demonstration: consume five on the source, the rest on the target, through the real job and command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
from pathlib import Path
import signal
from typing import Any

from confluent_kafka import Consumer
import pytest

from drkit.cli.main import run
from drkit.config import ClusterSettings
from drkit.flow_state.names import state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from tests.support.cli.forked import Forked
from tests.support.flows.produce import producer, put
from tests.support.stored import stored
from tests.support.waiting import eventually

RECORDS = 12


@pytest.fixture
def config(tmp_path: Path, source: LocalCluster, target: LocalCluster, topic_name: str) -> Path:
    tag = topic_name[-8:]
    path = tmp_path / "drkit.toml"
    path.write_text(
        f'[clusters.a{tag}]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.b{tag}]\nbootstrap_servers = "{target.bootstrap()}"\n'
        f'[[flows]]\nsource = "a{tag}"\ntarget = "b{tag}"\ntopics = ["{topic_name}"]\ngroups = ["g-.*"]\n'
        "tasks = 1\nbuckets = 2\nemit_heartbeats = false\ncheckpoint_interval_seconds = 1\n"
        "sync_group_offsets_interval_seconds = 1\nrefresh_topics_interval_seconds = 1\n"
    )
    return path


@pytest.fixture
def replicating(config: Path, tmp_path: Path) -> Iterator[Forked]:
    with Forked(
        "replicate", "--config", str(config), said=tmp_path / "said", environ={"TMPDIR": str(tmp_path)}
    ) as process:
        yield process
        process.send_signal(signal.SIGINT)
        process.wait(30)


Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def drkit(config: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A command in this process: its exit code and its answer."""

    def ask(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*arguments, "--config", str(config), "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out or said.err)

    return ask


def consume(bootstrap: str, group: str, topic: str, count: int, *, protocol: str) -> list[bytes | None]:
    """As an application does: it subscribes, reads and commits what it has read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        while len(values) < count:
            message = eventually(lambda: consumer.poll(0.2), what=f"record {len(values)} of {topic}")
            assert message.error() is None, message.error()
            values.append(message.value())
            consumer.commit(message=message, asynchronous=False)
        return values
    finally:
        consumer.close()


@pytest.mark.wide
def test_five_on_the_source_and_the_rest_on_the_target(
    drkit: Ask,
    source: LocalCluster,
    target: LocalCluster,
    topic_name: str,
    request: pytest.FixtureRequest,
) -> None:
    """P14, P29: five records on the source, the rest on the target, by both protocols."""
    tag = topic_name[-8:]
    primary = ClusterSettings(alias=f"a{tag}", bootstrap_servers=source.bootstrap())
    assert not create_topics(Cluster.connect(primary), [TopicPlan(topic_name, 1, 1)])
    out = producer(primary)
    for i in range(RECORDS):
        put(out, topic_name, b"%d" % i)
    assert out.flush(30) == 0
    groups = {protocol: f"g-{protocol}-{tag}" for protocol in ("classic", "consumer")}
    for protocol, group in groups.items():
        read = consume(source.bootstrap(), group, topic_name, 5, protocol=protocol)
        assert read == [b"%d" % i for i in range(5)]
    request.getfixturevalue("replicating")

    standby = ClusterSettings(alias=f"b{tag}", bootstrap_servers=target.bootstrap())

    def synced() -> bool:
        if not state_exists(standby, primary.alias):
            return False
        with StateTopic(standby, primary.alias) as state:
            state.load()
            verdicts = stored(state).get("checkpoints", {}).get("verdicts", {})
            return bool(verdicts.get("UNCHANGED") == len(groups))

    eventually(synced, 120, "both groups on the target")
    code, lines = drkit("translate", "--group", groups["classic"])
    assert code == 0
    assert [(x["offset"], x["answer"], x["to_offset"]) for x in lines] == [(5, "exact", 5)]
    for protocol, group in groups.items():
        rest = consume(target.bootstrap(), group, topic_name, RECORDS - 5, protocol=protocol)
        assert rest == [b"%d" % i for i in range(5, RECORDS)]
    code, lines = drkit("translate", "--group", groups["classic"], "--reverse")
    assert [(x["offset"], x["answer"], x["to_offset"]) for x in lines] == [(12, "exact", 12)]
    for way in ((), ("--reverse",)):
        code, lines = drkit("translate", "--topic", topic_name, "--partition", "0", "--offset", "7", *way)
        assert (code, [x["to_offset"] for x in lines]) == (0, [7])
    refusals(drkit, topic_name)


def refusals(drkit: Ask, topic: str) -> None:
    """Bad questions are answered clearly."""
    code, error = drkit("translate", "--group", "g-nobody")
    assert code == 2
    assert error["code"] == "group_without_offsets"
    code, error = drkit("translate", "--topic", topic)
    assert code == 2
    assert error["code"] == "group_or_offset"
    one = ("translate", "--partition", "0", "--offset")
    code, lines = drkit(*one, "3", "--topic", "elsewhere")
    assert code == 3
    assert "does not copy the topic elsewhere" in lines[0]["note"]
    code, lines = drkit(*one, "99", "--topic", topic)
    assert code == 3
    assert "is past the end of the source, 12" in lines[0]["note"]


def state_exists(standby: ClusterSettings, source: str) -> bool:
    found = Cluster.connect(standby).admin.list_topics(timeout=30).topics
    return state_topic(source) in found
