"""What is said of epochs that ended early, and of how far a flow is."""

from __future__ import annotations

import json
from typing import cast

import pytest

from drkit import observe
from drkit.config import FlowSettings
from drkit.copy_task.report import TaskReport
from drkit.flow_state.records import EventRecord
from drkit.flow_state.state import StateChange
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.replicate.flow_run import TaskEvents
from drkit.status.progress import Progress


def report(ended: str) -> dict[str, object]:
    return TaskReport("a->b", 1, 0, ended, 9.0, 0.1, 0, 0, 0, 0, 0, 0, [], {}).as_dict()


def test_tasks_that_saw_no_renewal_of_the_lease_are_named(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    nowhere = cast("Cluster", None)
    progress = Progress(FlowSettings(source="a", target="b"), nowhere, nowhere)
    progress.epoch_ended([report("time"), report("plan")])
    assert "lease_not_seen" not in capsys.readouterr().err
    progress.epoch_ended([report("expired"), report("time"), report("expired")])
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(e["flow"], e["tasks"]) for e in found if e["event"] == "lease_not_seen"] == [("a->b", 2)]


def test_before_the_first_report_records_are_what_the_target_has_grown_by():
    """They count from the first look on; how much is missing is not known then."""
    nowhere = cast("Cluster", None)
    progress = Progress(FlowSettings(source="a", target="b"), nowhere, nowhere)
    at, copy = TopicPartition("t", 0), TopicPartition("a.t", 0)
    assert progress.sampled({at: copy}, {at: 900}, {copy: 100})[1:] == (None, 0)
    assert progress.sampled({at: copy}, {at: 900}, {copy: 400})[1:] == (None, 300)

    progress.totals.records, progress._positions[at] = 350, (500, 450)
    assert progress.sampled({at: copy}, {at: 900}, {copy: 450})[1:] == (400, 350)
    assert progress.sampled({at: copy}, {at: 900}, {copy: 600})[1:] == (250, 500)


def test_a_stopped_partition_counts_before_its_epoch_ends():
    """Until a later report has it at work again."""
    nowhere = cast("Cluster", None)
    progress, at = Progress(FlowSettings(source="a", target="b"), nowhere, nowhere), TopicPartition("t", 0)
    events = TaskEvents("a->b", progress.stopped)
    events._next = 5
    record = EventRecord("map_unreadable", "t", 0, 1, {"stopped": True, "reason": "damaged"})
    events._report(4, StateChange("key", record))
    assert not progress.totals.stopped
    events._report(5, StateChange("key", record))
    assert progress.totals.stopped == {str(at): "damaged"}
    assert progress.sampled({}, {}, {}).lag == 0


def moved(topic: str) -> dict[str, object]:
    age = {"count": 0, "total": 0, "least": 0, "most": 0}
    return {
        "topic": topic, "partition": 0, "state": "live", "reason": "", "frontier": 5, "target_end": 5,
        "records": 0, "bytes": 0, "batches": 0, "age_ms": age, "latency_ms": age,
    }  # fmt: skip


def lines(flow: str) -> set[str]:
    """The topics of a flow that have a line of their own in the metrics."""
    return {
        sample.labels["topic"]
        for family in observe.REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("source") == flow and "topic" in sample.labels
    }


def test_topics_that_came_and_went_leave_nothing_and_take_no_ones_line(monkeypatch: pytest.MonkeyPatch):
    nowhere = cast("Cluster", None)
    progress = Progress(FlowSettings(source="churn", target="b"), nowhere, nowhere)
    monkeypatch.setattr(observe, "MOST_PARTITIONS", len(observe._partitions) + 3)
    for number in range(50):
        topics = {"stays", f"t{number}"}
        progress.stopped(TopicPartition(f"t{number}", 1), "deleted")
        progress.sampled(
            {TopicPartition(t, 1): TopicPartition(t, 1) for t in topics},
            {},
            dict.fromkeys((TopicPartition(t, 1) for t in topics), 1),
        )
        epoch = report("time") | {"partitions": [moved(topic) for topic in sorted(topics)]}
        progress.epoch_ended([epoch], topics)
        assert lines("churn") == topics
    totals = progress.totals
    kept = [len(x) for x in (totals.moved, totals.frontiers, totals.stopped, progress._positions)]
    assert kept == [2, 2, 1, 2]
    assert len(progress._began) == 2
