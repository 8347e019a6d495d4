"""Changes of the configuration while flows run: taken, refused, or named as waiting for a restart."""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
from typing import Any
import uuid

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
import pytest
from structlog.testing import capture_logs

from drkit.config import ClusterSettings, FlowSettings, Settings, load
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import listed_groups
from drkit.kafka.topics import TopicPlan, create_topics, describe_topics, list_offsets
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.replicate.reload import ConfigFile, Reload
from tests.support.cli.forked import Forked
from tests.support.errors import sentence
from tests.support.flows.produce import fill
from tests.support.kafka.commits import commit as commit_offsets
from tests.support.waiting import eventually

TEXT = """
[clusters.a]
bootstrap_servers = "a:1"
[clusters.b]
bootstrap_servers = "b:1"
[[flows]]
source = "a"
target = "b"
topics = ["x"]
"""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.6  # every look is due
        return self.now


class Job:
    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow


class World:
    """A file, and a flow that follows it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(TEXT)
        self.settings: Settings = load(path, {})
        self.job = Job(self.settings.flows[0])
        self.file = ConfigFile(path, lambda: load(path, {}), Clock())
        self.reload = Reload(self.file, self.settings, [self.job])

    def looks(self, times: int = 3) -> list[Any]:
        with capture_logs() as events:
            for _ in range(times):
                self.reload.look()
        return events


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "drkit.toml")


@pytest.mark.wide
def test_a_file_that_stays_says_nothing(world: World):
    world.path.write_text(TEXT)
    os.utime(world.path, (1, 1))
    assert not world.looks()


@pytest.mark.wide
def test_topics_are_taken(world: World):
    world.path.write_text(TEXT.replace('["x"]', '["x", "y"]'))
    (event,) = world.looks()
    assert (event["event"], event["flow"], event["changed"]) == (
        "config_changed",
        "a->b",
        ["topics: x → x, y"],
    )
    assert world.job.flow.copies("y")


@pytest.mark.wide
def test_a_file_in_the_making_is_waited_for(world: World):
    assert not world.looks(1)
    world.path.write_text(TEXT[:40])
    assert not world.looks(1)
    world.path.write_text(TEXT.replace('["x"]', '["x", "y"]'))
    assert not world.looks(1)
    assert [e["event"] for e in world.looks(1)] == ["config_changed"]


@pytest.mark.wide
def test_an_editor_may_replace_the_file(world: World):
    world.path.unlink()
    assert not world.looks()
    (world.path.parent / "new").write_text(TEXT.replace('["x"]', '["z"]'))
    (world.path.parent / "new").rename(world.path)
    assert [e["changed"] for e in world.looks()] == [["topics: x → z"]]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('["x"]', '["("]', "not a regular expression"),
        ('["x"]', '"', sentence("config_not_toml")),
        ("topics", "topcs", "unknown setting"),
        ('[clusters.b]\nbootstrap_servers = "b:1"', "", "no cluster 'b'"),
    ],
)
def test_what_cannot_be_is_refused_and_the_old_kept(world: World, old: str, new: str, reason: str):
    """P18: a change that cannot be is refused; the former settings stay."""
    before = world.job.flow
    world.path.write_text(TEXT.replace(old, new))
    (event,) = world.looks()
    assert event["event"] == "config_refused"
    assert reason in event["reason"]
    assert world.job.flow is before
    world.path.write_text(TEXT.replace('["x"]', '["y"]'))
    assert [e["event"] for e in world.looks()] == ["config_changed"]


@pytest.mark.wide
def test_what_needs_a_restart_is_named(world: World):
    world.path.write_text(TEXT.replace('"b:1"', '"b:2"').replace('["x"]', '["y"]') + "tasks = 7\n")
    changed, waiting = world.looks()
    assert changed["changed"] == ["topics: x → y"]
    assert waiting["event"] == "config_needs_restart"
    assert waiting["changed"] == ["flows.a->b.tasks: 2 → 7", "clusters.b.bootstrap_servers: b:1 → b:2"]
    assert (world.job.flow.tasks, world.job.flow.topics) == (2, ("y",))
    world.path.write_text(TEXT)
    assert [e["changed"] for e in world.looks()] == [["topics: y → x"]]


@pytest.mark.wide
def test_live_changes_that_fit_only_with_a_restart_are_refused(world: World):
    """Two flows of the file write into one topic, unless the prefix comes, and that is not taken."""
    both = (
        TEXT
        + '[clusters.c]\nbootstrap_servers = "c:1"\n[[flows]]\nsource = "c"\ntarget = "b"\ntopics = ["y"]\n'
    )
    world.path.write_text(both)
    world.settings = load(world.path, {})
    world.reload = Reload(world.file, world.settings, [Job(f) for f in world.settings.flows])
    world.looks()
    world.path.write_text(both.replace('["x"]', '["y"]\nnaming = "prefix"'))
    assert [e["event"] for e in world.looks()] == ["config_refused"]


@pytest.mark.wide
def test_intervals_of_groups_and_heartbeats_are_taken(world: World):
    more = ("checkpoint", "sync_group_offsets", "heartbeats")
    world.path.write_text(TEXT + "".join(f"{name}_interval_seconds = 2\n" for name in more))
    (event,) = world.looks()
    assert len(event["changed"]) == 3
    assert world.job.flow.checkpoint_interval_seconds == 2


@pytest.mark.wide
def test_asked_it_reads_again_even_what_stays(world: World):
    world.file.ask()
    assert [e["event"] for e in world.looks()] == ["config_unchanged"]


# -- the command on real clusters ---------------------------------------------------------------------


def copied(cluster: Cluster, topic: str) -> int:
    found = describe_topics(cluster, [topic])
    if topic not in found:
        return 0
    at = [TopicPartition(topic, p) for p in found[topic].leaders]
    return sum(list_offsets(cluster, at, "latest").values())


def commit(cluster: ClusterSettings, topic: str, *groups: str) -> None:
    """Groups that have read some records."""
    for group in groups:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        commit_offsets(consumer, Place(topic, 0, 3))
        consumer.close()


def events(said: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for line in said.read_text().splitlines() if line.startswith("{")]
    return [e for e in map(json.loads, lines) if e["event"] == kind]


def running(config: Path, said: Path) -> Forked:
    return Forked("replicate", "--config", str(config), "--log-format", "json", said=said)


def test_a_running_flow_follows_its_file(source: LocalCluster, target: LocalCluster, tmp_path: Path):
    """P18: a running flow takes the changes of its file."""
    tag = uuid.uuid4().hex[:8]
    config, said = tmp_path / "drkit.toml", tmp_path / "said"
    text = (
        f'[clusters.a{tag}]\nbootstrap_servers = "{source.bootstrap()}"\n'
        f'[clusters.b{tag}]\nbootstrap_servers = "{target.bootstrap()}"\n'
        f'[[flows]]\nsource = "a{tag}"\ntarget = "b{tag}"\ntopics = ["{tag}-one"]\ntasks = 1\n'
        "refresh_topics_interval_seconds = 3600\ncheckpoint_interval_seconds = 1\n"
        f'groups = ["{tag}-first"]\n'
    )
    config.write_text(text)
    side_a = ClusterSettings(alias="a", bootstrap_servers=source.bootstrap())
    side_b = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    create_topics(Cluster.connect(side_a), [TopicPlan(f"{tag}-{n}", 1, 1) for n in ("one", "two", "three")])
    for name in ("one", "two", "three"):
        fill(side_a, f"{tag}-{name}", 100)
    commit(side_a, f"{tag}-one", f"{tag}-first", f"{tag}-second")

    with running(config, said) as process:

        def arrived(name: str) -> bool:
            assert process.poll() is None, said.read_text()[-3000:]
            return copied(side_b, f"{tag}-{name}") == 100

        eventually(lambda: arrived("one"), 120)
        eventually(lambda: f"{tag}-first" in listed_groups(side_b.settings), 60)

        # By watching: the new topic is copied at once, although the next scheduled look is an hour away.
        config.write_text(text.replace(f'"{tag}-one"', f'"{tag}-one", "{tag}-two"'))
        eventually(lambda: arrived("two"), 60)
        assert events(said, "config_changed")[0]["changed"] == [f"topics: {tag}-one → {tag}-one, {tag}-two"]

        # What cannot be is refused, with the reason, and copying continues.
        config.write_text(text.replace("topics = [", "topcs = ["))
        refused = eventually(lambda: events(said, "config_refused"), 30)[0]
        assert refused["hint"] == "did you mean 'topics'?"
        fill(side_a, f"{tag}-two", 100)
        eventually(lambda: copied(side_b, f"{tag}-two") == 200, 60)

        # By SIGHUP: at once, too; what waits for a restart is named.
        assert f"{tag}-second" not in listed_groups(side_b.settings)
        text = text.replace(f"{tag}-first", f"{tag}-.*").replace(f"{tag}-one", f"{tag}-.*")
        config.write_text(text.replace("tasks = 1", "tasks = 2"))
        process.send_signal(signal.SIGHUP)
        eventually(lambda: arrived("three") and f"{tag}-second" in listed_groups(side_b.settings), 60)
        waiting = eventually(lambda: events(said, "config_needs_restart"), 30)[0]
        assert waiting["changed"] == [f"flows.a{tag}->b{tag}.tasks: 1 → 2"]
        assert process.poll() is None
