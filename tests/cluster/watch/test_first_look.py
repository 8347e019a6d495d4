"""The first seconds of a watch: what it has not seen itself is not told as if it had."""

from __future__ import annotations

from dataclasses import replace
import json
from pathlib import Path
import subprocess
import sys
import uuid

import pytest

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.verdict import Picture, VerdictKind, judge
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.offsets.mm2_records import Heartbeat
from drkit.watch.senses import HeartbeatListener
from tests.support.detect.pictures import LOST
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually

DEAD_SECONDS = 19 * 60


@pytest.mark.wide
def test_the_silence_of_heartbeats_counts_from_the_last_one(target: LocalCluster) -> None:
    flow = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b")
    settings = ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())
    topic = flow.naming_policy.downstream(TOPIC)
    assert not create_topics(Cluster.connect(settings), [TopicPlan(topic, 1, 1)])
    out = producer(settings)
    beat = Heartbeat(flow.source, flow.target, wall_ms() - DEAD_SECONDS * 1000)
    put(out, topic, beat.value, beat.key)
    assert out.flush(30) == 0
    beats = HeartbeatListener(settings, flow, DetectionSettings(), AwakeClock(), 0)
    beats.start()
    try:
        eventually(lambda: beats.now().silence is not None, what="the old heartbeat")
        found = beats.now()
    finally:
        beats.stop()
    assert found.silence is not None
    assert found.silence >= DEAD_SECONDS
    assert found.phi is not None
    assert found.phi > DetectionSettings().phi_threshold


@pytest.mark.wide
def test_a_look_that_has_only_begun_cannot_say_that_replication_stopped() -> None:
    late = Picture(phi=20.0, beat_silence=1140.0, moved_ago=1140.0, still_seconds=5.0)
    assert not late.moves
    assert not late.is_fresh
    fresh = Picture(phi=20.0, beat_silence=1140.0, moved_ago=1140.0, still_seconds=5.0, watched_for=2.0)
    assert fresh.is_fresh
    said = "not watched long enough: for 2.0 s; a copy that still moves is seen within 5 s"
    assert said in list(fresh.beats_in_words())
    assert judge(replace(LOST, watched_for=2.0, still_seconds=5.0)).kind is VerdictKind.HOLD


@pytest.mark.wide
def test_two_dead_clusters_are_no_suspicion_with_exit_code_0(tmp_path: Path) -> None:
    config = tmp_path / "drkit.toml"
    config.write_text(
        '[clusters.a]\nbootstrap_servers = "127.0.0.1:9"\n'
        '[clusters.b]\nbootstrap_servers = "127.0.0.1:19"\n'
        '[[flows]]\nsource = "a"\ntarget = "b"\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "drkit", "watch", "--once", "1", "--config", str(config), "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    (said,) = json.loads(done.stdout)
    found = done.returncode, said["verdict"], said["reason"]
    assert found == (3, "HOLD", "target_unreachable"), done.stderr
