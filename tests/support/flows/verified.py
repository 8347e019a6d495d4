"""What `drkit verify` finds between two clusters, without Spark."""

from __future__ import annotations

import json

from drkit.kafka.admin import Cluster
from drkit.verify import snapshot as verify_snapshot
from drkit.verify.ranges import cut
from drkit.verify.report import FlowReport, join
from drkit.verify.task import compare_range
from tests.support.flows.flow import Flow
from tests.support.flows.produce import producer, put


def verified(flow: Flow, *topics: str, slots: int = 2) -> FlowReport:
    """What `drkit verify` does, without Spark between."""
    source, target = Cluster.connect(flow.source), Cluster.connect(flow.target)
    snapshot = verify_snapshot.take(flow.settings, source, target, topics)
    results = [compare_range(r, flow.source, flow.target) for r in cut(snapshot.views, slots)]
    partitions = join(snapshot.views, results)
    return FlowReport(
        flow.settings.name, partitions, list(snapshot.unclear), snapshot.absent, snapshot.notes, 1.0
    )


def own(flow: Flow, *more: int) -> None:
    """Say in the flow's state which producer ids are its own, as the driver does before the first use."""
    value = json.dumps({"current": list(flow.producer), "all": [flow.producer.id, *more]})
    out = producer(flow.target)
    put(out, flow.state_topic, value.encode(), b"producer-ids")
    assert out.flush(30) == 0
