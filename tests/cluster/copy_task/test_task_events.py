"""Events of copy tasks: each is reported once, by whichever thread and attempt it is read."""

from __future__ import annotations

from collections.abc import Iterator
import json
import threading
import uuid

import pytest

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster
from drkit.replicate.flow_run import TaskEvents


@pytest.fixture
def settings(target: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())


@pytest.fixture
def flow(settings: ClusterSettings) -> FlowSettings:
    made = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b")
    ensure_state_topic(Cluster.connect(settings), made)
    return made


@pytest.fixture
def tasks(settings: ClusterSettings, flow: FlowSettings) -> Iterator[StateTopic]:
    """Writes what copy tasks write."""
    with StateTopic(settings, flow.source) as state:
        yield state


def reported(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [f"{e['event']} {e['topic']}-{e['partition']}" for e in lines]


def test_each_event_is_reported_once_to_all_readers(
    settings: ClusterSettings, flow: FlowSettings, tasks: StateTopic, capsys: pytest.CaptureFixture[str]
):
    observe.setup("json", "info")
    cluster, stop, events = (
        Cluster.connect(settings),
        threading.Event(),
        TaskEvents(flow.name, lambda _at, _reason: None),
    )
    tasks.emit("source_gap", "orders", 0)
    with StateTopic(settings, flow.source) as state:
        events.follow(state)
        assert not reported(capsys), "it is of an earlier run"
        tasks.emit("source_gap", "orders", 1)
        tasks.emit("topic_left_out", "orders")
        state.load()  # as the lease and others do
        assert reported(capsys) == ["source_gap orders-1"], "the driver reports its own events"
        tasks.emit("source_gap", "orders", 1)
        tasks.emit("resync", "orders", 2)
        events.finish(cluster, state, stop)
        assert reported(capsys) == ["source_gap orders-1", "resync orders-2"]
    tasks.emit("source_gap", "orders", 3)
    with StateTopic(settings, flow.source) as state:
        events.follow(state)
        assert reported(capsys) == ["source_gap orders-3"], "the attempt before left it unread"
        events.finish(cluster, state, stop)
    assert not reported(capsys)
