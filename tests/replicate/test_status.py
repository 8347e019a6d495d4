"""`drkit status` and metrics of a real flow: before it ran, running, frozen, and with everything dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from drkit.cli import main as cli
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec
from drkit.offsets.mm2_records import Heartbeat
from drkit.replicate.metrics import MM2, TABLE
from drkit.replicate.status import FlowStatus
from drkit.replicate.status_look import StatusCollector
from tests.replicate.compare import read
from tests.replicate.process import eventually, tree
from tests.replicate.produce import fill, fill_transactions

PLAIN, TRANSACTIONAL = "orders", "payments"
WAITING = 50


class World:
    """Two clusters and a flow, run by `drkit replicate` in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target"))
        start_together(self.source, self.target)
        self.a = ClusterSettings(alias="a", bootstrap_servers=self.source.bootstrap())
        self.b = ClusterSettings(alias="b", bootstrap_servers=self.target.bootstrap())
        # The heartbeats travel although no topic is called like that in the flow.
        flow = FlowSettings(source="a", target="b", topics=(PLAIN, TRANSACTIONAL), buckets=2, tasks=1)
        self.settings = Settings(clusters={"a": self.a, "b": self.b}, flows=(flow,))
        self.flow, self.folder = flow, folder
        self.port = PortReservation().reserve()
        self.config = folder / "drkit.toml"
        self.config.write_text(
            f'[clusters.a]\nbootstrap_servers = "{self.a.bootstrap_servers}"\n'
            f'[clusters.b]\nbootstrap_servers = "{self.b.bootstrap_servers}"\n'
            f'[[flows]]\nsource = "a"\ntarget = "b"\ntopics = ["{PLAIN}", "{TRANSACTIONAL}"]\n'
            "buckets = 2\ntasks = 1\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def replicate(self) -> None:
        main = "from drkit.cli.main import main; main()"
        with (self.folder / "said").open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", main, "replicate", "--config", str(self.config), "--metrics-port",
                 str(self.port)],
                stdout=said, stderr=said,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """To the process and everything below it: Spark's workers are in groups of their own."""
        for pid in tree(self._process.pid) if self._process is not None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def look(self, **more: Any) -> FlowStatus:
        collector = StatusCollector(self.settings, self.flow, **more)
        try:
            return collector.look()
        finally:
            collector.close()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def healthy(self) -> FlowStatus | None:
        assert self._process is None or self._process.poll() is None, (self.folder / "said").read_text()
        found = self.look()
        return None if found.faults else found

    def close(self) -> None:
        self.kill()
        self.source.stop()
        self.target.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("status"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def before(world: World) -> FlowStatus:
    """What was said before the flow ever ran."""
    admin = Cluster.connect(world.a)
    assert not create_topics(admin, [TopicPlan(PLAIN, 2, 1), TopicPlan(TRANSACTIONAL, 1, 1)])
    eventually(lambda: {PLAIN, TRANSACTIONAL} <= set(topic_names(admin)))
    fill(world.a, PLAIN, 1000)
    fill_transactions(world.a, [TRANSACTIONAL], 600)
    return world.look()


@pytest.fixture(scope="module")
def running(world: World, before: FlowStatus) -> FlowStatus:
    """The first status without a fault."""
    assert before.faults
    world.replicate()
    return eventually(world.healthy, 180, "health")


def codes(status: FlowStatus) -> set[str]:
    return {f.code for f in status.faults}


def test_a_flow_that_never_ran_would_lose_everything(before: FlowStatus):
    assert before.role == "stopped"
    assert codes(before) >= {"not_running", "heartbeat_missing", "topics_left_out"}
    plain, paid = before.topics
    assert (plain.topic, plain.records, plain.exact) == (PLAIN, 1000, True)
    # Neither markers nor aborted records are records that anybody could lose.
    assert paid.records is not None
    assert 0 < paid.records < 600
    assert before.loss.records == 1000 + paid.records
    assert (before.loss.bytes or 0) > 10_000


@pytest.mark.usefixtures("running")
def test_a_healthy_flow_has_no_fault_and_no_loss(world: World):
    found = eventually(lambda: s if (s := world.look()).loss.records == 0 else None, 30, "no lag")
    assert found.loss.exact
    assert (found.role, found.health, found.loss.seconds) == ("replicating", "ok", 0.0)
    assert [t.records for t in found.topics] == [0, 0]
    assert found.heartbeat is not None
    assert found.heartbeat.age_seconds < 5
    assert found.runner is not None
    assert found.runner.alive
    assert found.map_segments > 1  # every transaction marker begins one
    assert not [t for t in found.topics if "heartbeats" in t.topic]


@pytest.mark.usefixtures("running")
def test_heartbeats_travel_in_the_format_of_mm2(world: World):
    """P15: heartbeats of the source stand on the target, in MirrorMaker 2's format."""
    assert "a.heartbeats" in topic_names(Cluster.connect(world.b))
    beats = [Heartbeat.decode(s.key or b"", s.value or b"") for s in read(world.b, "a.heartbeats")[0]]
    assert {(b.source, b.target) for b in beats} == {("a", "b")}
    assert [b.timestamp for b in beats] == sorted(b.timestamp for b in beats)


@pytest.mark.usefixtures("running")
def test_every_metric_is_served(world: World):
    """P20: a running flow serves records, bytes, rates, age and latency."""
    _, text = eventually(lambda: a if "drkit_rpo_seconds{" in (a := world.get("/metrics"))[1] else None)
    assert [name for name in TABLE if f"# HELP {name} " not in text] == []
    healthy = 'drkit_flow_healthy{source="a",target="b"} 1.0'
    eventually(lambda: healthy in world.get("/metrics")[1], 30, "a healthy look")

    def count() -> float:
        labels = f'{{partition="0",source="a",target="b",topic="{TRANSACTIONAL}"}}'
        lines = world.get("/metrics")[1].splitlines()
        found = [x for x in lines if x.startswith(f"{MM2}record_count{labels}")]
        return float(found[0].rpartition(" ")[2]) if found else -1.0

    before = count()
    fill(world.a, TRANSACTIONAL, 30, first=10_000)
    eventually(lambda: count() >= before + 30, 30, "the count within an epoch")
    assert 'drkit_heartbeat_delay_seconds{source="a",target="b"} 0.' in world.get("/metrics")[1]


@pytest.mark.usefixtures("running")
def test_page_health_and_status(world: World):
    eventually(lambda: world.get("/healthz")[0] == 200, 30, "healthz")
    code, text = world.get("/")
    assert code == 200
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    told = json.loads(world.get("/status.json")[1])
    assert told["flows"][0]["flow"] == "a->b"
    assert told["flows"][0]["history"]
    assert world.get("/nothing")[0] == 404


@pytest.mark.usefixtures("running")
def test_the_command_prints_it(world: World, capsys: pytest.CaptureFixture[str]):
    eventually(world.healthy, 30, "health")
    assert cli.run(["status", "--config", str(world.config)]) == 0
    shown = capsys.readouterr().out
    for words in ("a->b", "replicating", "0 records", PLAIN):
        assert words in shown
    assert cli.run(["status", "--json", "--config", str(world.config)]) == 0
    told = json.loads(capsys.readouterr().out)["flows"][0]
    assert told["health"] == "ok"
    assert told["loss"]["records"] == 0


@pytest.mark.usefixtures("running")
def test_watching_sees_heartbeats_arrive(world: World):
    main = "from drkit.cli.main import main; main()"
    command = [sys.executable, "-c", main, "status", "--watch", "--json", "--interval", "0.5"]
    with subprocess.Popen(
        [*command, "--config", str(world.config)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            delays = [json.loads(line)["flows"][0]["heartbeat"] for line in islice(process.stdout, 6)]
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)  # it may be writing: somebody must read on
            assert process.returncode == 0
        finally:
            process.kill()
    # Seen arriving, a heartbeat tells its own delay, which is shorter than its age may be.
    assert any(d["delay_seconds"] is not None and d["delay_seconds"] < 1 for d in delays)


@pytest.mark.usefixtures("running")
def test_frozen_it_is_stale_and_what_waits_is_counted(world: World):
    world.signal(signal.SIGSTOP)
    fill(world.a, PLAIN, WAITING, first=20_000)
    found = world.look()
    assert (found.loss.records, found.loss.exact) == (WAITING, True)
    assert (found.loss.bytes or 0) > WAITING * 40
    assert 0 < (found.loss.seconds or 0.0) < 10
    stale = eventually(lambda: s if "heartbeat_stale" in codes(s := world.look()) else None, 40, "staleness")
    assert stale.health == "fault"
    eventually(lambda: "not_running" in codes(world.look()), 40, "the lease's end")


@pytest.mark.usefixtures("running")
def test_with_everything_dead_it_says_what_is_known_and_how_old(world: World, capsys):
    world.kill()
    world.source.kill()
    found = world.look()
    assert codes(found) >= {"source_unreachable", "not_running", "heartbeat_stale"}
    assert found.topics
    # The last note of the source's ends is from before the freeze: nothing of that is missing.
    assert (found.loss.records, found.loss.exact) == (0, False)
    assert (found.loss.source_seen_seconds or 0.0) > 5
    assert cli.run(["status", "--config", str(world.config)]) == 1
    assert "last seen" in capsys.readouterr().out

    world.target.kill()
    blind = world.look()
    assert (blind.role, codes(blind)) == ("unknown", {"target_unreachable"})
    assert blind.loss.records is None
