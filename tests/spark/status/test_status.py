"""`drkit status` and metrics of a real flow: before it ran, running, frozen, and with everything dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
import json
import re
import signal
import subprocess
import sys

import pytest

from drkit.cli import main as cli
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, topic_names
from drkit.monitoring.metrics import MM2, TABLE
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.model import FlowStatus
from drkit.watch.board import TABLE as OBSERVED
from tests.support.flows.compare import read
from tests.support.flows.produce import fill, fill_transactions
from tests.support.status.alert_files import DASHBOARD, METRIC, RULES, expressions
from tests.support.status.status_world import GROUP, PLAIN, TRANSACTIONAL, World
from tests.support.waiting import eventually

WAITING = 50


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
    world.commit(100)
    return world.look()


@pytest.fixture(scope="module")
def running(world: World, before: FlowStatus) -> FlowStatus:
    """The first status without a fault."""
    assert before.faults
    world.replicate()
    return eventually(world.healthy, 180, "health")


def codes(status: FlowStatus) -> set[str]:
    return {f.code for f in status.faults}


@pytest.mark.wide
def test_a_flow_that_never_ran_would_lose_everything(before: FlowStatus):
    assert before.role == "stopped"
    assert codes(before) >= {"not_running", "heartbeat_missing", "topics_left_out"}
    plain, transactional = before.topics
    assert (plain.topic, plain.records, plain.exact) == (PLAIN, 1000, True)
    # Markers and aborted records cannot be lost.
    assert transactional.records is not None
    assert 0 < transactional.records < 600
    assert before.loss.records == 1000 + transactional.records
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
    assert (found.map_segments or 0) > 1  # every transaction marker begins one
    assert not [t for t in found.topics if "heartbeats" in t.topic]


@pytest.mark.usefixtures("running")
def test_heartbeats_travel_in_the_format_of_mm2(world: World):
    """P15: heartbeats of the source are on the target, in MirrorMaker 2's format."""
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
    assert re.search(r"replication delay +[\d,]+ ms", shown)
    assert cli.run(["status", "--json", "--config", str(world.config)]) == 0
    told = json.loads(capsys.readouterr().out)["flows"][0]
    assert told["health"] == "ok"
    assert told["loss"]["records"] == 0
    assert told["heartbeat"]["delay_seconds"] >= 0


@pytest.mark.wide
@pytest.mark.usefixtures("running")
def test_groups_are_there_with_every_partition(world: World, capsys: pytest.CaptureFixture[str]):
    eventually(lambda: world.group(100), 60, "a ready group")
    world.commit(140)
    found = eventually(lambda: world.group(140), 60, "the group at its new position")
    assert (found.partitions[0].position, found.partitions[0].stored, found.repeats) == (140, 140, 0)
    status = ["status", "--config", str(world.config), "--group"]
    eventually(world.healthy, 30, "health")
    assert cli.run([*status, GROUP]) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 ready" in shown
    assert re.search(r"shipping +orders +0 +140 +140 +140 +0 ", shown)
    assert cli.run([*status, "shiping"]) == 2
    assert f"did you mean '{GROUP}'?" in capsys.readouterr().err
    told = json.loads(world.get(f"/group.json?flow=a-%3Eb&group={GROUP}")[1])
    assert told["partitions"][0]["topic"] == PLAIN


@pytest.mark.wide
@pytest.mark.usefixtures("running")
def test_rules_and_dashboard_find_what_they_ask_for(world: World):
    used = {m for path in (RULES, DASHBOARD) for e in expressions(path) for m in METRIC.findall(e)}
    # These are there when something went wrong, and the last two when long epochs have ended.
    # Of drills that the file schedules: this one has none.
    used -= {name for name in used if name.startswith("drkit_drill_")}
    # Those of an observer.
    used -= set(OBSERVED)
    used -= {"drkit_fault", "drkit_errors_total", "drkit_group_writes_refused_total"}
    used -= {"drkit_epoch_gap_seconds", *(name for name in used if "replication_latency" in name)}

    def missing() -> set[str]:
        lines = world.get("/metrics")[1].splitlines()
        return used - {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}

    with suppress(AssertionError):
        eventually(lambda: not missing(), 30, "every metric with a value")
    assert missing() == set()


@pytest.mark.wide
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
            process.communicate(timeout=60)  # it may be writing: a full pipe would block it
            assert process.returncode == 0
        finally:
            process.kill()
    # Seen arriving, a heartbeat tells its own delay, which is shorter than its age may be.
    told = [(d["delay_seconds"], d["age_seconds"]) for d in delays if d["delay_seconds"] is not None]
    assert told
    assert any(delay < age for delay, age in told), told


@pytest.mark.wide
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


@pytest.mark.wide
@pytest.mark.usefixtures("running")
def test_with_everything_dead_it_says_what_is_known_and_how_old(world: World, capsys):
    world.kill()
    world.source.kill()
    found = world.look()
    assert codes(found) >= {"source_unreachable", "not_running", "heartbeat_stale"}
    assert found.topics
    alone = world.group(140)
    assert alone is not None
    assert (alone.repeats, alone.partitions[0].position) == (None, 140)
    # The last note of the source's ends is from before the freeze: nothing of that is missing.
    assert (found.loss.records, found.loss.exact) == (0, False)
    assert (found.loss.source_seen_seconds or 0.0) > 5
    assert cli.run(["status", "--config", str(world.config)]) == 1
    assert "last seen" in capsys.readouterr().out

    world.target.kill()
    blind = world.look()
    assert (blind.role, codes(blind)) == ("unknown", {"target_unreachable"})
    assert blind.loss.records is None
